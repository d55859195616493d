/** The part of docs/BENCHMARKS.md on files that go from rank to rank. */
import { tableOf, type SpreadRow } from './figures.ts';

export function section(row: SpreadRow): string {
  return `## A file for all ranks

\`npm run -s bench -- spread\`: a file of rank 0 goes down the ring in slices, each checked and stored before it is handed on, until all
tabs of one browser have it; in turn with bare data channels on their pages. *Bare ring*: every rank sends as many bytes to its
right neighbour, as in an all-reduce. *Bare chain*: the file's bytes by the file's way, unchecked, until the last rank has them.
Medians of five rounds, of each the slowest rank; ratios are bare time over ours.

${tableOf([row])}
`;
}
