#!/bin/sh
# The compiler for the fuzz targets: counts edges and compares in the crates of Pennon and nowhere else, with
# PENNON_COVERAGE lines too.
case " $* " in
*" --crate-name pennon_core "* | *" --crate-name pennon_datafile "* | *" --crate-name pennon_index "* | \
	*" --crate-name pennon_table "* | *" --crate-name decoders "*)
	exec "$@" ${PENNON_COVERAGE:+-Cinstrument-coverage} -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
		-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
		-Cllvm-args=-sanitizer-coverage-trace-compares
	;;
esac
exec "$@"
