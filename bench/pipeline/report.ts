/** Tables, checks and the section of docs/BENCHMARKS.md for the results of `bench pipeline`. */
import { table } from '../../tools/report/table.ts';
import type { BoundaryRow } from './boundaries.ts';
import { MICRO_BATCHES, STEPS, type EqualityRow } from './equality.ts';
import { PASS_MS, type IdleRow } from './idle.ts';
import { SHARDING_STEPS, type ShardingRow } from './sharding.ts';
import { sumOf, TAB_MODEL, type TabRow } from './tabRuns.ts';

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

function worstOf(values: readonly number[]): number {
  return Math.max(...values);
}

function rangeOf(values: readonly number[]): string {
  return `${Math.min(...values).toFixed(2)} to ${worstOf(values).toFixed(2)}`;
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
    [
      equality &&
        `- **Losses.** Ranks in one process on WebAssembly (Node ${node}), the preset \`tiny\` and an mlp, compared with one rank that holds the whole model: in ${STEPS} steps of ${equality.length * MICRO_BATCHES.length} cases
  (models, meshes, schedules, numbers of micro-batches), losses differ by at most ${worstOf(equality.flatMap(({ differences }) => differences)).toExponential(1)}. The limit is ${ROUNDING}.`,
      boundaries &&
        `- **Bytes.** A boundary carries 2 d values per token, for d channels, and a stage without replicas sends the gradients of its weights to its mirror: with all
  headers, at most ${worstOf(boundaries.map(({ bytes, values, mirrored }) => bytes / (values + mirrored))).toFixed(4)} times that.`,
      sharding &&
        `- **Sharded optimizers.** \`ZeroRedundancyOptimizer\` against DistributedDataParallel, ${SHARDING_STEPS} steps: in ${sharding.filter(({ isEqual }) => isEqual).length} of ${sharding.length} cases, losses and parameters are equal bit by bit, and
  the bytes of a rank are at most ${worstOf(sharding.map(({ bytes, theory }) => bytes / theory)).toFixed(4)} times 2K(n-1)/n.`,
    ]
      .filter((each) => each !== undefined)
      .join('\n'),
    idle &&
      `### Waiting stages

For this table, **the passes of a stage wait instead of computing**: ${PASS_MS} ms, forward and backward, by a timer in the tab's worker. Messages and WebRTC
links are those of a training run. *Idle* is the share of time in which ranks compute nothing. *Transfer* is the median time between the passes of two stages.
*Plan with transfer* is the idle share of the plan if every value travels for so long.

${idleTable(idle)}

![Passes of a step of four stages, planned and measured](pipeline-idle.svg)`,
    tabs &&
      `Real tabs in WebAssembly, linked by WebRTC, train the language model with ${layers} blocks, ${width} channels, ${context} tokens and dropout, in ${tabs.length} layouts: with fp32, losses of
three steps differ from one tab with the whole model by at most ${worstOf(tabs.flatMap(({ codec, difference }) => (codec === 'fp32' ? [difference] : []))).toExponential(1)}. The bytes of a boundary are at most ${worstOf(tabs.flatMap(({ bytes }) => bytes ?? [])).toFixed(4)} times the formula, and the
memory of each rank is ${rangeOf(tabs.flatMap(({ memory }) => memory.map((one) => one.measured / sumOf(one))))} times its stage's weights, gradients and averages, and the activations that the plan keeps.`,
  ]
    .filter((each) => each !== undefined && each !== '')
    .join('\n\n');
}
