/** Tables and the section of docs/BENCHMARKS.md for `bench gpu`. */
import { table } from '../../tools/report/table.ts';
import { LOOPS, type ByLoop, type GpuBenchResult, type LeftOut, type LoopFigures, type ModelResult } from './args.ts';

/** Digits for numbers that range over several orders of magnitude. */
function short(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function each<T>(values: ByLoop<T>, format: (value: T) => string): string {
  return LOOPS.map((name) => format(values[name])).join(' / ');
}

function stepTable(models: readonly ModelResult[]): string {
  return table(
    ['model', 'parameters', 'batch', 'plain ms', 'stock ms', 'own ms', 'stock / own', 'own per s'],
    models.map(({ model, parameters, batch, tokens, loops }) => {
      const { stock, own } = loops;
      const perSecond = (1000 * batch * (tokens ?? 1)) / own.ms;
      return [
        ...[model, String(parameters), String(batch), ...LOOPS.map((name) => short(loops[name].ms))],
        (stock.ms / own.ms).toFixed(2),
        `${perSecond.toFixed(0)} ${tokens === null ? 'samples' : 'tokens'}`,
      ];
    }),
  );
}

const whole = (value: number): string => value.toFixed(0);

function costTable(models: readonly ModelResult[]): string {
  return table(
    ['model', 'dispatches', 'submits', 'JavaScript ms', 'GPU ms', 'GPU MB'],
    models.map(({ model, loops, gpuBytes }) => {
      const cell = (valueOf: (figures: LoopFigures) => string): string => each(loops, valueOf);
      return [
        ...[model, cell(({ dispatches }) => whole(dispatches)), cell(({ submits }) => whole(submits))],
        ...[cell(({ jsMs }) => short(jsMs)), cell(({ gpuMs }) => (gpuMs === null ? '-' : short(gpuMs)))],
        each(gpuBytes, (bytes) => (bytes / 1e6).toFixed(1)),
      ];
    }),
  );
}

function productTable({ matmul }: GpuBenchResult): string {
  return table(
    ['product', 'stock GFLOP/s', 'own GFLOP/s'],
    matmul.map(({ size, kind, stockGflops, ownGflops }) => [
      ...[`${kind} ${size}`, short(stockGflops), short(ownGflops)],
    ]),
  );
}

export function tables(result: GpuBenchResult): string {
  const { models } = result;
  return [stepTable(models), costTable(models), productTable(result), ...notes(result)].join('\n\n');
}

const REASONS: Record<LeftOut['reason'], string> = {
  software: 'Not measured, because this adapter computes in software',
  'time limit': 'Not measured, because the time limit was reached',
  failed: 'Failed',
};

/** Sentences about models whose steps are not replayed, and about what was left out. */
function notes({ models, leftOut }: GpuBenchResult): string[] {
  const missing = Object.entries(REASONS).flatMap(([reason, text]) => {
    const names = leftOut.filter((one) => one.reason === reason).map(({ name }) => name);
    return names.length === 0 ? [] : [`${text}: ${names.join(', ')}.`];
  });
  const eager = models.flatMap(({ model, notReplayed }) => (notReplayed === null ? [] : [`${model}: ${notReplayed}`]));
  return [...eager, ...missing];
}

export function section(result: GpuBenchResult): string {
  const { adapter, browser, date, models } = result;
  return `## Training on WebGPU

\`npm run -s bench -- gpu\`, on ${adapter.name}, ${browser}, ${date}. Three loops take turns: *plain* is a TensorFlow.js loop
(\`variableGrads\`, \`tf.train.adam\`, the loss is read in each step); *stock* is \`DistributedDataParallel\` in a world of one with TensorFlow.js's
kernels; *own* is the same with this project's kernels and replayed steps
([ADR 19](adr/0019-captured-steps.md)). ${['Times are medians.', ...notes(result)].join(' ')}

${stepTable(models)}
`;
}
