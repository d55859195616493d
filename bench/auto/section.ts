/** What `bench auto` finds, as a table, and its part of docs/BENCHMARKS.md. */
import { table } from '../table.ts';
import type { AutoResult, Learned } from './bench.ts';

export function autoTable({ fp32, auto, sooner }: AutoResult): string {
  const rows = [fp32, auto].map(({ codec, choice, reachedMs, stepMs, accuracy }: Learned) => [
    choice === null ? codec : `${codec}: ${choice.codec}`,
    stepMs.toFixed(0),
    reachedMs === null ? '-' : (reachedMs / 1000).toFixed(1),
    `${(100 * accuracy).toFixed(1)} %`,
  ]);
  const head = ['codec', 'step, ms', '90 % after, s', 'accuracy at the end'];
  return [table(head, rows), `Sooner: ${sooner === null ? 'not both got there' : `${sooner.toFixed(2)} x`}.`].join(
    '\n\n',
  );
}

export function section(result: AutoResult): string {
  const { tabs, ownMs, rateKbit } = result;
  return [
    '## Automatic choice',
    `${tabs} tabs, each in a browser on a host of its own, train the mlp on MNIST, on lines of ${rateKbit} kbit/s: fp32 gradients take four ` +
      `times as long as the ${ownMs.toFixed(0)} ms that a step takes by itself here. Times are those of rank 0, until a test on held-out ` +
      'images, every eighth part of a run, first found 90 % right. (`npm run -s bench -- auto --data DIR --hosts SCRIPT`)',
    autoTable(result),
    'What limits it: the first five steps go as fp32, to be timed.',
  ].join('\n\n');
}
