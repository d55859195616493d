/** Command-line options of `bench gpu` and of its bundle. */
import { Option } from 'commander';
import { GPU_MODES } from '../../launcher/browser/browser.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { option } from '../command/options.ts';
import type { MeasureOptions } from './measure.ts';

export interface GpuOptions extends Omit<MeasureOptions, 'limitMs'> {
  minutes: number;
  /** File for the result, which is written again after each model. */
  out?: string;
  json?: true;
}

const MAX_MINUTES = 24 * 60;

export const GPU_OPTIONS: readonly Option[] = [
  new Option('--browser <path>', 'path of Chrome, Chromium or Edge, or firefox (default: as of the launcher)'),
  new Option('--gpu <mode>', 'device that WebGPU runs on; hardware fails if the adapter computes in software')
    .choices(GPU_MODES)
    .default('auto'),
  option('--minutes <n>', 'time limit; what it leaves out is reported', wholeNumber(1, MAX_MINUTES), 10),
  new Option('--out <file>', 'JSON file for the result, which is written again after each model'),
];
