/**
 * The command line of `npm run torch-parity`: prints the differences between this project's results
 * and PyTorch's.
 */
import { fileURLToPath } from 'node:url';
import * as tf from '@tensorflow/tfjs';
import type { Io } from '../../launcher/io.ts';
import { createProgram, runProgram } from '../../launcher/options/program.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { table } from '../report/table.ts';
import { plotCurves } from './lossCurves.ts';
import { compareWithTorch, SUITES, type Comparison, type Difference } from './parity.ts';
import { findTorch } from './python.ts';
import { compareStepTimes, WORKLOAD, type StepTimesComparison } from './stepTimes.ts';

interface TorchParityOptions {
  times?: true;
  plot?: true;
  json?: true;
}

const inMs = (value: number): string => `${value.toFixed(1)} ms`;

const PICTURE = fileURLToPath(new URL('../../docs/torch-parity.png', import.meta.url));
/** Steps whose losses are printed. */
const PRINTED_STEPS = [1, 10, 20, 30, 40, 50, 60];

/** Runs one command line (without `node` and the script); see {@link runProgram}. */
export function runTorchParity(argv: readonly string[], io: Io): Promise<number> {
  const program = createProgram(
    'torch-parity',
    'Compare results with those of PyTorch (Debian: apt install python3-torch).',
    io,
  )
    .option('--times', 'also time a training step of both on the CPU')
    .option('--plot', 'also draw the loss curves to docs/torch-parity.png')
    .option('--json', 'print the report as one JSON object')
    .action((options: TorchParityOptions) => compare(options, io));
  return runProgram(program, argv, io);
}

/** @throws (rejects) PeergradError if a difference exceeds its tolerance, or PyTorch is missing. */
async function compare(options: TorchParityOptions, { out }: Io): Promise<void> {
  const torch = findTorch();
  if (torch === null) {
    throw new PeergradError('PyTorch is not installed. Install it to compare (Debian: apt install python3-torch).');
  }
  await tf.setBackend('cpu');
  const comparisons: Comparison[] = [];
  for (const suite of SUITES) comparisons.push(await compareWithTorch(torch.python, suite));
  const times = options.times ? await compareStepTimes(torch.python) : null;
  const cases = comparisons.flatMap((comparison) => comparison.cases);
  if (options.plot) await plotCurves(cases, PICTURE);

  if (options.json) out(JSON.stringify({ torch: torch.version, comparisons, times }));
  else {
    out(`Compared with PyTorch ${torch.version}\n`);
    out(`${differenceTable(comparisons)}\n\n${lossTable(cases)}`);
    if (times) out(`\n${timesText(times)}`);
  }
  const failed = comparisons.filter((one) => one.cases.some(({ difference }) => !(difference <= one.tolerance)));
  if (failed.length > 0) {
    throw new PeergradError(
      `Results differ from PyTorch's by more than the tolerance in ${failed.map(({ suite }) => suite).join(', ')}.`,
    );
  }
}

function differenceTable(comparisons: readonly Comparison[]): string {
  const rows = comparisons.map(({ suite, tolerance, cases }) => {
    const worst = cases.reduce((a, b) => (b.difference > a.difference ? b : a));
    return [suite, `${cases.length}`, worst.difference.toExponential(1), worst.case, tolerance.toExponential(0)];
  });
  return table(['suite', 'cases', 'largest difference', 'in', 'tolerance'], rows);
}

function lossTable(cases: readonly Difference[]): string {
  const rows = cases.flatMap(({ case: name, curves }) =>
    curves
      ? [
          [name, 'peergrad', ...PRINTED_STEPS.map((step) => curves.ours[step - 1]!.toFixed(7))],
          ['', 'PyTorch', ...PRINTED_STEPS.map((step) => curves.torch[step - 1]!.toFixed(7))],
        ]
      : [],
  );
  return table(['loss after step', '', ...PRINTED_STEPS.map(String)], rows);
}

function timesText({ torch, peergrad }: StepTimesComparison): string {
  const { sizes, worldSize, batch } = WORKLOAD;
  return [
    `A step of an MLP ${sizes.join('-')} on the CPU, ${worldSize} ranks, batch ${batch} each, one thread a rank:`,
    `PyTorch ${inMs(torch)}, peergrad (WebAssembly) ${inMs(peergrad.total)}: ${(peergrad.total / torch).toFixed(1)} times.`,
    `Parts: computation ${inMs(peergrad.compute)}, reading ${inMs(peergrad.readback)}, exposed communication ` +
      `${inMs(peergrad.exposed)}, update ${inMs(peergrad.update)}.`,
  ].join('\n');
}
