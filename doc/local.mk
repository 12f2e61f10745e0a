EXTRA_DIST += %D%/design.md
