/** How long each benchmark took. */
import { table } from '../table.ts';

export interface Taken {
  name: string;
  ms: number;
}

export function durationsTable(taken: readonly Taken[]): string {
  const all = taken.reduce((sum, { ms }) => sum + ms, 0);
  return table(
    ['benchmark', 'minutes'],
    [...taken.map(({ name, ms }) => [name, minutes(ms)]), ['all of them', minutes(all)]],
  );
}

function minutes(ms: number): string {
  return (ms / 60_000).toFixed(1);
}
