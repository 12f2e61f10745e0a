EXTRA_DIST += %D%/design.md %D%/performance.md %D%/roadmap.md
dist_man_MANS += %D%/layerops.1 %D%/layerops.3
