/** Options of every command that opens tabs. */
import { type Command, Option } from 'commander';
import { BACKEND_MODES, GPU_MODES } from '../browser/browser.ts';
import { wholeNumber } from './jobOptions.ts';

/** Seconds a run may take before it is given up: ten times the demo on two slow cores. */
export const RUN_TIMEOUT_S = 15 * 60;
/** Longest timeout, seconds: what setTimeout can hold. */
const MAX_TIMEOUT_S = 2_000_000;

export function addBackendOption(command: Command): Command {
  return command.addOption(
    new Option('--backend <name>', 'what tabs compute on; auto: WebGPU on a GPU, or as --gpu says, else WebAssembly')
      .choices(BACKEND_MODES)
      .default('auto'),
  );
}

/** @param timeoutSeconds `null`: there is none, unless it is said. */
export function addBrowserOptions(command: Command, timeoutSeconds: number | null): Command {
  return command
    .option('--browser <path>', 'Chrome, Chromium or Edge to use (default: PEERGRAD_BROWSER, or the first found)')
    .addOption(new Option('--gpu <mode>', 'what WebGPU runs on').choices(GPU_MODES).default('auto'))
    .option(
      '--timeout <seconds>',
      'give up after so long, beside --minutes',
      wholeNumber(1, MAX_TIMEOUT_S),
      timeoutSeconds ?? undefined,
    );
}
