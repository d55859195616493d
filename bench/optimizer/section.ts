/** The optimizer's part of docs/BENCHMARKS.md. */
import { optimizerTable, type OptimizerResult } from './table.ts';

export function section(result: OptimizerResult): string {
  return `## What a step does on the CPU

\`npm run -s bench -- optimizer\`, in Node ${result.node}: every kind of work in turn, 15 times, medians, beside a copy of the same
arrays. *Times a copy* compares with copying as many bytes as the work reads and writes. \`average\` divides the summed gradient by
the samples, each step; \`hash\` digests one array, every \`hashEvery\` steps.

${optimizerTable(result)}

Division, square root and the way from float32 to float64 and back limit it, not memory. A WebAssembly kernel would have to give
the same bits: with two float64 lanes, and blocks of the arrays copied in and out of its memory, one for Adam was 1.0 to 1.4 times
as fast as this loop, which is too little to keep one. Four float32 lanes were 2 to 2.5 times as fast, but round after every
operation, and the same arithmetic in JavaScript, where there is no SIMD, takes half as long again as now.
`;
}
