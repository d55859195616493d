/** The step's part of docs/BENCHMARKS.md, and its tables. */
import { table } from '../table.ts';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';
import type { StepBenchResult } from './summary.ts';

const PARTS = ['compute', 'readback', 'communicate', 'exposed', 'update'] as const satisfies (keyof StepTimes)[];

export function aloneTable({ alone }: StepBenchResult): string {
  return table(
    ['model', 'parameters', 'plain ms', 'world of one ms', 'ratio', 'compute', 'readback', 'update'],
    alone.map(({ model, parameters, plainMs, ms, ratio }) => [
      ...[model, String(parameters), plainMs.toFixed(1), ms.total.toFixed(1), ratio.toFixed(3)],
      ...[ms.compute, ms.readback, ms.update].map((part) => part.toFixed(1)),
    ]),
  );
}

export function cutsTable({ together }: StepBenchResult): string {
  return table(
    ['bucket cap', 'buckets', 'step ms', ...PARTS, 'exposed, %', 'least, %'],
    together.cuts.map(({ capBytes, bucketBytes, ms, exposedShare, leastShare }) => [
      ...[nameOf(capBytes), String(bucketBytes.length), ms.total.toFixed(0)],
      ...PARTS.map((part) => ms[part].toFixed(0)),
      ...[exposedShare, leastShare].map((share) => (100 * share).toFixed(0)),
    ]),
  );
}

export function section(result: StepBenchResult): string {
  const { adapter, together } = result;
  const { tabs, line, parameters, batch } = together;
  const whole = together.cuts.at(-1)!.ms;
  return `## What a step costs

\`npm run -s bench -- step\`, on ${adapter}: in the worker of one tab, stretches of a plain TensorFlow.js loop (\`variableGrads\`,
\`tf.train.adam\`, the loss read each step) take turns with stretches of \`DistributedDataParallel\` in a world of one, by the same
model, batch and optimizer; medians. \`compute\` is until the first bucket is here, \`readback\` from there to the last.

${aloneTable(result)}

Adam runs on the CPU here, and as several shaders for every variable there.

Then ${tabs} tabs ${line ? `over lines of ${line.rateMbit} Mbit/s` : 'of one browser'}, an mlp of equal layers with ${parameters} parameters, ${batch} samples a
rank, with buckets of several sizes in turn. \`communicate\` is from the first all-reduce issued to the last one done, \`exposed\` what
is left of it once the last bucket is read. \`least\` is what would be exposed if the line carried one bucket after the other without
a gap, each from when it was read on: the rest is overhead.

${cutsTable(result)}

In one piece, communication takes ${(whole.communicate / whole.compute).toFixed(2)} times as long as compute${line ? `, and the line needs ${(line.ms / whole.compute).toFixed(2)} times as long` : ''}.

![Step time over the size of buckets](buckets.png)

Nothing can be sent before the forward pass is over and the first bucket's gradients are computed; where communication takes as
long as compute, that share of compute is what stays exposed, however finely gradients are cut. Where the cores that compute also
move packets, compute takes longer beside communication than without, which counts as compute here.
`;
}

function nameOf(capBytes: number | null): string {
  return capBytes === null ? 'whole' : `${capBytes / 1024} KiB`;
}
