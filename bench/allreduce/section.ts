/** The all-reduce's part of docs/BENCHMARKS.md. */
import type { AllReduceBenchResult } from './bench.ts';
import { tableOf } from './figures.ts';

export function section({ rows, cores }: AllReduceBenchResult): string {
  return `## All-reduce

\`npm run -s bench -- allreduce\`: tabs of one browser on ${cores} cores, in turn by the process group in their workers and over bare
data channels on their pages, which push the same bytes round the same ring in 64 KiB messages without sums, headers or worker.
Medians of all ranks; *ratio* is bare time over ours. As in torch.distributed the sum replaces the tensor; where *in place* is \`no\`, each
op sums a new copy, and its time includes the copying. Algorithm and bus bandwidth are those of nccl-tests.

${tableOf(rows)}

Packets limit both: data channels of one machine share its cores, which spend nine tenths of their time on SCTP, DTLS and UDP, most
of it outside the page. What is ours is adding up, headers, and that a rank knows when all have called. A copy of 16 MiB takes
some 10 ms: where *in place* makes a larger difference, it is the machine's other work, which few ops of seconds each do not average out.
`;
}
