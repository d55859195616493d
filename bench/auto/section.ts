/** What `bench auto` finds, as a table, and its part of docs/BENCHMARKS.md. */
import { table } from '../table.ts';
import type { AutoResult, Learned } from './figures.ts';

export function autoTable({ fp32, auto, sooner }: AutoResult): string {
  const inTurn = fp32.flatMap((plain, round) => [plain, auto[round]!]);
  const rows = inTurn.map((of: Learned) => [
    of.choice === null ? of.codec : `${of.codec}: ${of.choice.codec} from step ${of.chosenAt + 1} on`,
    ...[of.ownMs, of.exposedMs, of.stepMs].map((ms) => ms.toFixed(0)),
    ...(of.reachedMs === null ? ['-', '-'] : [String(of.steps), (of.reachedMs / 1000).toFixed(1)]),
    `${(100 * of.accuracy).toFixed(1)} %`,
  ]);
  const head = ['codec', 'own work, ms', 'exposed, ms', 'step, ms', 'steps to 90 %', 'seconds', 'accuracy then'];
  return [table(head, rows), `Sooner: ${sooner === null ? 'not both got there' : `${sooner.toFixed(2)} x`}.`].join(
    '\n\n',
  );
}

export function section(result: AutoResult): string {
  const { tabs, ownMs, rateKbit } = result;
  return [
    '## Automatic choice',
    `${tabs} tabs, each in a browser on a host of its own, train the mlp with 256 hidden units on MNIST, 128 images a rank and step, on lines of ` +
      `${rateKbit} kbit/s: fp32 gradients take four times as long as the ${ownMs.toFixed(0)} ms that a step takes by itself here. Own work ` +
      'is that of the slowest rank, exposed what the rank waits that waits least; seconds are those of rank 0, until a test on held-out images, every sixth step, first found 90 % right. ' +
      '(`npm run -s bench -- auto --data DIR --hosts SCRIPT`)',
    autoTable(result),
    'What limits it: the first step goes as fp32, to be timed, and a step takes no less than its own work.',
  ].join('\n\n');
}
