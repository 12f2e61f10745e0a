EXTRA_DIST += %D%/design.md %D%/performance.md
dist_man_MANS += %D%/layerops.1 %D%/layerops.3
