/** The strategies' part of docs/BENCHMARKS.md, and its table. */
import { table } from '../table.ts';
import type { StrategyName } from '../../src/spec/job.ts';
import type { StrategyRow } from './theory.ts';

interface StrategiesResult {
  strategies: readonly StrategyRow[];
  skipped: readonly { strategy: StrategyName; n: number; reason: string }[];
  adapter: string;
}

export function strategiesTable({ strategies }: StrategiesResult): string {
  return table(
    ['a step of the busiest rank', 'n', 'K, kB', 'H', 'sent, kB', 'received, kB', 'theory, kB', 'ratio', 'step, ms'],
    strategies.map(({ strategy, n, K, syncEvery, sentPerStep, receivedPerStep, theory, ratio, stepMs }) => [
      ...[strategy, String(n), kilobytes(K), String(syncEvery), kilobytes(sentPerStep), kilobytes(receivedPerStep)],
      ...[kilobytes(theory), ratio.toFixed(4), stepMs.toFixed(0)],
    ]),
  );
}

export function section(result: StrategiesResult): string {
  const leftOut = result.skipped.map(({ strategy, n, reason }) => `${strategy} with ${n}: ${reason}`);
  return `## What strategies send

\`npm run -s bench -- strategies\`: a few steps of real tabs on ${result.adapter}, with each strategy. K is the bytes of the model, H the
steps between two exchanges; *theory* is what docs/STRATEGIES.md says the busiest rank must move, *ratio* what it did move over that.

${strategiesTable(result)}
${leftOut.length === 0 ? '' : `\nLeft out: ${leftOut.join('; ')}.\n`}
Headers, and the loss and counts behind the gradient, are what is more than theory.
`;
}

function kilobytes(bytes: number): string {
  return (bytes / 1000).toFixed(1);
}
