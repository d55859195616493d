/** Options of all commands that open tabs. */
import { type Command, Option } from 'commander';
import { BACKEND_MODES, GPU_MODES } from '../browser/browser.ts';
import { wholeNumber } from './jobOptions.ts';

/** Seconds before a run is aborted: ten times the demo on two slow cores. */
export const RUN_TIMEOUT_S = 15 * 60;
/** Longest timeout in seconds: the range of setTimeout. */
const MAX_TIMEOUT_S = 2_000_000;

export function addBackendOption(command: Command): Command {
  return command.addOption(
    new Option('--backend <name>', 'backend of the tabs; auto: WebGPU on a GPU or as set by --gpu, else WebAssembly')
      .choices(BACKEND_MODES)
      .default('auto'),
  );
}

/** @param timeoutSeconds the default; `null`: no timeout. */
export function addBrowserOptions(command: Command, timeoutSeconds: number | null): Command {
  return command
    .option('--browser <path>', 'path of Chrome, Chromium or Edge (default: PEERGRAD_BROWSER, or the first one found)')
    .addOption(new Option('--gpu <mode>', 'device that WebGPU runs on').choices(GPU_MODES).default('auto'))
    .option(
      '--timeout <seconds>',
      'abort the run after this time, in addition to --minutes',
      wholeNumber(1, MAX_TIMEOUT_S),
      timeoutSeconds ?? undefined,
    );
}
