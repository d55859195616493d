/** Tables, charts and the section of docs/BENCHMARKS.md for `bench gpu`. */
import { drawPanels, type Panel } from '../../tools/report/plot.ts';
import { table } from '../../tools/report/table.ts';
import { LOOPS, PRODUCTS, type ByLoop } from './args.ts';
import type { GpuBenchResult, LeftOut, ModelResult } from './result.ts';

const MB = 1e6;

/** Digits for numbers that range over several orders of magnitude. */
function short(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function each(values: ByLoop<number | null>, format: (value: number) => string = short): string {
  return LOOPS.map((name) => (values[name] === null ? '-' : format(values[name]))).join(' / ');
}

const whole = (value: number): string => value.toFixed(0);

function stepTable(models: readonly ModelResult[]): string {
  return table(
    [
      'model',
      'parameters',
      'batch',
      'plain ms',
      'stock ms',
      'own ms',
      'stock / own',
      'own p95',
      'own per s',
      'own TFLOP/s',
    ],
    models.map(({ name, parameters, batch, plainMs, stockMs, oursMs, ratio, p95Ms, perSecond, unit, tflops }) => [
      ...[name, String(parameters), String(batch), ...[plainMs, stockMs, oursMs].map(short), ratio.toFixed(2)],
      ...[short(p95Ms.ours), `${whole(perSecond.ours)} ${unit}`, tflops.ours.toPrecision(3)],
    ]),
  );
}

function costTable(models: readonly ModelResult[]): string {
  return table(
    [
      'model',
      'dispatches',
      'submits',
      'JavaScript ms',
      'GPU ms',
      'readback ms',
      'compile ms',
      'uploaded MB',
      'read MB',
      'GPU MB',
    ],
    models.map((one) => [
      ...[one.name, each(one.dispatches, whole), each(one.submits, whole), each(one.jsMs), each(one.gpuMs)],
      ...[each(one.readbackMs), each(one.compileMs, whole)],
      ...[one.uploadedBytes, one.readBytes, one.gpuBytes].map((bytes) =>
        each(bytes, (value) => (value / MB).toFixed(1)),
      ),
    ]),
  );
}

function productTable({ matmul }: GpuBenchResult): string {
  return table(
    ['product', 'stock GFLOP/s', 'own GFLOP/s', 'own / stock'],
    matmul.map(({ size, kind, stockGflops, oursGflops, ratio }) => [
      ...[`${kind} ${size}`, short(stockGflops), short(oursGflops), ratio.toFixed(2)],
    ]),
  );
}

export function tables(result: GpuBenchResult): string {
  const { leftOut, models } = result;
  const missing = leftOut.length === 0 ? [] : [missingOf(leftOut)];
  return [stepTable(models), costTable(models), productTable(result), ...eagerModels(models), ...missing].join('\n\n');
}

/** A sentence for each model whose steps are not replayed. */
function eagerModels(models: readonly ModelResult[]): string[] {
  return models.flatMap(({ name, notReplayed }) => (notReplayed === null ? [] : [`${name}: ${notReplayed}`]));
}

/** Sentences about what was not measured, one for each reason. */
export function missingOf(leftOut: readonly LeftOut[]): string {
  const sentences: [LeftOut['reason'], string][] = [
    ['software', 'Not measured, because this adapter computes in software'],
    ['time limit', 'Not measured, because the time limit was reached'],
    ['failed', 'Failed'],
  ];
  return sentences
    .map(([reason, text]) => ({ text, names: leftOut.filter((one) => one.reason === reason).map(({ name }) => name) }))
    .filter(({ names }) => names.length > 0)
    .map(({ text, names }) => `${text}: ${names.join(', ')}.`)
    .join(' ');
}

function curve(label: string, colour: string, dash: readonly number[], values: number[]) {
  return { label, colour, width: 2.5, dash, values };
}

/** Charts: step times of the models, and the speed of matrix products. */
export async function drawResult({ adapter, models, matmul }: GpuBenchResult, file: string): Promise<void> {
  const steps: Panel = {
    title: `A step relative to plain TensorFlow.js, ${adapter}`,
    x: 'model',
    y: 'step time',
    names: models.map(({ name }) => name),
    curves: [
      curve(
        'stock kernels',
        '#ea580c',
        [],
        models.map(({ stockMs, plainMs }) => stockMs / plainMs),
      ),
      curve(
        'own kernels',
        '#2563eb',
        [],
        models.map(({ oursMs, plainMs }) => oursMs / plainMs),
      ),
    ],
  };
  const colours = { NN: '#2563eb', NT: '#ea580c', TN: '#16a34a' };
  const products: Panel = {
    title: 'Products of square matrices',
    x: 'rows and columns',
    y: 'GFLOP/s',
    xs: [...new Set(matmul.map(({ size }) => size))],
    curves: PRODUCTS.flatMap((kind) => {
      const own = matmul.filter((one) => one.kind === kind);
      return [
        curve(
          `${kind}, own`,
          colours[kind],
          [],
          own.map(({ oursGflops }) => oursGflops),
        ),
        curve(
          `${kind}, stock`,
          colours[kind],
          [6, 4],
          own.map(({ stockGflops }) => stockGflops),
        ),
      ];
    }),
  };
  await drawPanels([steps, products], file);
}

export function section(result: GpuBenchResult): string {
  const { adapter, browser, date, leftOut, models } = result;
  const missing = leftOut.length === 0 ? '' : ` ${missingOf(leftOut)}`;
  const eager = eagerModels(models)
    .map((sentence) => ` ${sentence}`)
    .join('');
  return `## Training on WebGPU

\`npm run -s bench -- gpu\`, on ${adapter}, ${browser}, ${date}. One worker trains in three loops, which take turns: *plain* is a TensorFlow.js loop
(\`variableGrads\`, \`tf.train.adam\`, the loss is read in each step); *stock* is \`DistributedDataParallel\` in a world of one with TensorFlow.js's
kernels; *own* is the same with this project's kernels and replayed steps
([ADR 19](adr/0019-captured-steps.md)). Times are medians.${eager}${missing}

${stepTable(models)}

TFLOP/s count the multiply-adds of products and convolutions, two operations each, and three times the forward pass for a step.

![Step time relative to plain TensorFlow.js, and speed of matrix products](gpu.png)
`;
}
