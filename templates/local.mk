# templates: batch scripts with @KEY@ holes
templatesdir = $(pkgdatadir)/templates
dist_templates_DATA = \
	templates/array.sbatch.in \
	templates/cpu.sbatch.in \
	templates/job.sh \
	templates/mps.sbatch.in \
	templates/multi.sbatch.in \
	templates/sequential.sbatch.in \
	templates/single.sbatch.in \
	templates/tokenize.sbatch.in
