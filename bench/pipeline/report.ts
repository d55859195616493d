/** Tables, checks and the section of docs/BENCHMARKS.md for the results of `bench pipeline`. */
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { table } from '../../tools/report/table.ts';
import type { BoundaryRow } from './boundaries.ts';
import { MICRO_BATCHES, STEP_SAMPLES, STEPS, type EqualityRow } from './equality.ts';
import { PASS_MS, VALUE_SHAPE, type IdleRow } from './idle.ts';
import { SHARDING_STEPS, type ShardingRow } from './sharding.ts';
import { sumOf, TAB_MODEL, TAB_SAMPLES, type TabRow } from './tabRuns.ts';

/** Parts that were not measured are missing. */
export interface PipelineResult {
  node: string;
  equality?: EqualityRow[];
  boundaries?: BoundaryRow[];
  sharding?: ShardingRow[];
  idle?: IdleRow[];
  tabs?: TabRow[];
}

/** Largest relative difference of losses that differ by rounding only. */
const ROUNDING = 1e-5;
/** Relative difference of bytes that is allowed for the headers of frames. */
const HEADERS = 0.01;

/** Returns a clause for each result that is not exact. Memory and times are not checked. */
export function problemsOf({ equality = [], boundaries = [], sharding = [], tabs = [] }: PipelineResult): string[] {
  return [
    ...equality
      .filter(({ differences }) => !differences.every((difference) => difference <= ROUNDING))
      .map(
        ({ model, replicas, stages, schedule, differences }) =>
          `losses of ${model} in ${replicas} x ${stages} stages with ${schedule} differ by ${Math.max(...differences).toExponential(1)}`,
      ),
    ...boundaries
      .filter(({ bytes, values, mirrored }) => !isNear(bytes / (values + mirrored)))
      .map(
        ({ stages, codec, bytes, values, mirrored }) =>
          `a boundary of ${stages} stages with ${codec} sent ${Math.round(bytes)} bytes in a step, and theory is ${Math.round(values + mirrored)}`,
      ),
    ...sharding
      .filter(({ isEqual }) => !isEqual)
      .map(({ model, optimizer, ranks }) => `${optimizer} in ${ranks} shards gives ${model} other parameters`),
    ...sharding
      .filter(({ bytes, theory }) => !isNear(bytes / theory))
      .map(
        ({ model, optimizer, ranks, bytes, theory }) =>
          `${optimizer} in ${ranks} shards of ${model} sent ${Math.round(bytes)} bytes in a step, and theory is ${theory}`,
      ),
    ...tabs
      .filter(({ codec, difference }) => codec === 'fp32' && !(difference <= ROUNDING))
      .map((row) => `losses of tabs (${nameOf(row)}) differ by ${row.difference.toExponential(1)}`),
    ...tabs
      .filter(({ bytes }) => bytes !== null && !isNear(bytes))
      .map((row) => `tabs (${nameOf(row)}) sent ${row.bytes!.toFixed(3)} times the bytes of theory`),
  ];
}

function isNear(ratio: number): boolean {
  return Math.abs(ratio - 1) <= HEADERS;
}

/** Returns all tables. */
export function report(result: PipelineResult): string {
  const { equality, boundaries, sharding, idle, tabs } = result;
  return [
    equality && equalityTable(equality),
    boundaries && boundariesTable(boundaries),
    sharding && shardingTable(sharding),
    idle && idleTable(idle),
    tabs && tabsTable(tabs),
    tabs && memoryTable(tabs),
  ]
    .filter((each) => each !== undefined)
    .join('\n\n');
}

function equalityTable(rows: readonly EqualityRow[]): string {
  return table(
    ['model', 'replicas x stages', 'schedule', ...MICRO_BATCHES.map((count) => `M = ${count}`)],
    rows.map(({ model, replicas, stages, schedule, differences }) => [
      ...[model, `${replicas} x ${stages}`, schedule],
      ...differences.map((difference) => difference.toExponential(1)),
    ]),
  );
}

function boundariesTable(rows: readonly BoundaryRow[]): string {
  return table(
    ['codec', 'stages', 'bytes of a boundary', '2 d per token', 'K/S', 'ratio'],
    rows.map(({ stages, codec, bytes, values, mirrored }) => [
      ...[codec, String(stages), bytes.toFixed(0), String(values), mirrored.toFixed(0)],
      (bytes / (values + mirrored)).toFixed(4),
    ]),
  );
}

function shardingTable(rows: readonly ShardingRow[]): string {
  return table(
    ['optimizer', 'model', 'ranks', 'same bits', 'bytes of a rank', '2K(n-1)/n', 'ratio', 'averages'],
    rows.map(({ model, optimizer, ranks, isEqual, bytes, theory, averages }) => [
      ...[optimizer, model, String(ranks), isEqual ? 'yes' : 'no'],
      ...[bytes.toFixed(0), theory.toFixed(0), (bytes / theory).toFixed(4)],
      averages === null ? '-' : averages.toFixed(4),
    ]),
  );
}

function idleTable(rows: readonly IdleRow[]): string {
  return table(
    ['schedule', 'M', 'idle, %', '(S-1)/(M+S-1), %', 'transfer, ms', 'plan with transfer, %', 'step, s', 'plan, s'],
    rows.map(({ schedule, microBatches, measured, plan, transferMs, withTransfer, stepMs, planMs }) => [
      ...[
        schedule,
        String(microBatches),
        percent(measured),
        percent(plan),
        transferMs.toFixed(0),
        percent(withTransfer),
      ],
      ...[(stepMs / 1000).toFixed(2), (planMs / 1000).toFixed(2)],
    ]),
  );
}

function tabsTable(rows: readonly TabRow[]): string {
  return table(
    ['run', 'losses', 'bytes / formula', 'idle, %', 'plan, %', 'step, ms'],
    rows.map((row) => [
      ...[nameOf(row), row.difference.toExponential(1), row.bytes?.toFixed(4) ?? '-'],
      ...[percent(row.idle.measured), percent(row.idle.plan), row.stepMs.toFixed(0)],
    ]),
  );
}

function memoryTable(rows: readonly TabRow[]): string {
  return table(
    ['run', 'measured, MB', '4K/S', 'activations', 'sum', 'ratio'],
    rows.map((row) => [
      nameOf(row),
      inRow(row.memory.map(({ measured }) => megabytes(measured))),
      inRow(row.memory.map(({ state }) => megabytes(state))),
      inRow(row.memory.map(({ activations }) => megabytes(activations))),
      inRow(row.memory.map((memory) => megabytes(sumOf(memory)))),
      inRow(row.memory.map((memory) => (memory.measured / sumOf(memory)).toFixed(2))),
    ]),
  );
}

function nameOf({ stages, replicas, schedule, microBatches, recompute, codec }: TabRow): string {
  const more = [...(recompute ? ['recompute'] : []), ...(codec === 'fp32' ? [] : [codec])];
  return [`${replicas} x ${stages}`, schedule, `M = ${microBatches}`, ...more].join(', ');
}

function inRow(values: readonly string[]): string {
  return values.join(', ');
}

function percent(share: number): string {
  return (100 * share).toFixed(1);
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

export function section({ node, equality, boundaries, sharding, idle, tabs }: PipelineResult): string {
  const { layers, width, context } = TAB_MODEL;
  return [
    `## Pipelines and sharded optimizers

\`npm run -s bench -- pipeline\`, on two cores that other programs also use. See [features/pipeline.md](features/pipeline.md).`,
    equality &&
      `### Losses against one rank

In Node ${node} on WebAssembly, ranks in one process with memory links, with the engine's training loops: the preset \`tiny\`, and an mlp of six dense
layers. The reference is one rank that holds the whole model and computes the ${STEP_SAMPLES} samples of a step at once. The table has the largest
relative difference of a loss in ${STEPS} steps, by the number M of micro-batches. The limit is ${ROUNDING}. *2 x 2* is a mesh of two replicas.

${equalityTable(equality)}`,
    boundaries &&
      `### Bytes between stages

The preset \`tiny\`, as above, with two micro-batches for each stage. A boundary carries 2 d values per token, for d = ${DEFAULT_JOB.gpt.width} channels: activations forward and
gradients backward. Without replicas, each stage also sends the gradients of its weights to its mirror on the next rank, in float32: K/S on average, for K
bytes of all weights. *Bytes* are those of a step with all headers, and of the sum of the losses; *ratio* compares them with both.

${boundariesTable(boundaries)}`,
    sharding &&
      `### Sharded optimizers

\`ZeroRedundancyOptimizer\` against DistributedDataParallel with the algorithm \`ring\`, ${SHARDING_STEPS} steps, as above. *Same bits*: all ranks have the same
losses and parameters, bit by bit. K are the bytes of the parameters. *Averages* is the largest shard of the optimizer's averages, divided by the
whole.

${shardingTable(sharding)}`,
    idle &&
      `### Waiting stages

Four tabs on two cores slow each other down, so a pipeline that computes here does not wait as on four machines. For this table, **the passes of a stage wait
instead of computing**: ${PASS_MS} ms, forward and backward, by a timer in the tab's worker. Plan, executor, messages and WebRTC links are those of a
training run, and a value of ${VALUE_SHAPE.join(' x ')} float32 numbers travels over each boundary. So the table measures the schedule and the messages, not
computation. *Idle* is the share of time in which ranks compute nothing, as in the result of a run. *Transfer* is the median time from the end of
a pass to the start of the next stage's pass, where that stage waits for it. *Plan with transfer* is the idle share of the plan if every value travels for
so long. With \`1f1b\`, stages exchange values in each tick, so each transfer delays them; with \`gpipe\`, values arrive while the stage still computes.

${idleTable(idle)}

![Passes of a step of four stages, planned and measured](pipeline-idle.svg)`,
    tabs &&
      `### In tabs

Real tabs in WebAssembly, linked by WebRTC, train the language model with ${layers} blocks, ${width} channels, ${context} tokens and dropout,
${TAB_SAMPLES} samples a step. *Losses*: largest relative difference from one tab with the whole model, in three steps; the limit does not apply to fp16. *Bytes*
are those of a boundary. *Idle* is measured with real computation, and does not show what four machines would do: the tabs share two cores, so at most
two of them compute at a time, and others wait for a core even when they have work. Stages are not equal either, because a layer is not divided.

${tabsTable(tabs)}

Memory of each rank, in MB. *4K/S*: the stage's weights, their gradients and Adam's two averages; 3K/S if the rank needs the most before its first
backward pass. *Activations* of a stage s on one of S ranks in a ring, which has S + 1 stages:

- \`gpipe\`: M a, for a micro-batch's activations a;
- \`1f1b\`: at most min(M, S + 1 - s) a, and min(M, 2 S) a in the first stage;
- with recomputation, a is one output for each layer. The activations of the layer that is computed again are not measured.

Rank 0 has the first and the last stage. *Activations* are those of the plan's passes when a rank needs the most, with the stages' inputs and the
tokens of all micro-batches. \`networkMemory\` states a with the kernels for WebGPU. TensorFlow.js's own operations keep several times as much, so here a
is measured: each layer is recorded in Node on WebAssembly.

${memoryTable(tabs)}`,
  ]
    .filter((each) => each !== undefined)
    .join('\n\n');
}
