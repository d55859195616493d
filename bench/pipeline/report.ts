/** Tables, checks and the section of docs/BENCHMARKS.md for the results of `bench pipeline`. */
import { table } from '../../tools/report/table.ts';
import { PASS_MS, type IdleRow } from './idle.ts';
import { sumOf, TAB_MODEL, type TabRow } from './tabRuns.ts';

/** Parts that were not measured are missing. */
export interface PipelineResult {
  idle?: IdleRow[];
  tabs?: TabRow[];
}

/** Largest relative difference of losses that differ by rounding only. */
const ROUNDING = 1e-5;
/** Relative difference of bytes that is allowed for the headers of frames. */
const HEADERS = 0.01;

/** Returns a clause for each result that is not exact. Memory and times are not checked. */
export function problemsOf({ tabs = [] }: PipelineResult): string[] {
  return [
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
  const { idle, tabs } = result;
  return [idle && idleTable(idle), tabs && tabsTable(tabs), tabs && memoryTable(tabs)]
    .filter((each) => each !== undefined)
    .join('\n\n');
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

export function section({ idle, tabs }: PipelineResult): string {
  const { layers, width, context } = TAB_MODEL;
  return [
    `## Pipelines

\`npm run -s bench -- pipeline\`, on two cores that other programs also use. See [features/pipeline.md](features/pipeline.md).`,
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
