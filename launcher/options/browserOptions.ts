/** Options of all commands that open tabs. */
import { type Command, Option } from 'commander';
import { BACKEND_MODES, GPU_MODES } from '../browser/browser.ts';
import { GPU_KERNEL_CHOICES } from '../../src/spec/names.ts';
import { wholeNumber } from './jobOptions.ts';

/** Default timeout of a run, in seconds: ten times what the demo takes on two slow cores. */
export const RUN_TIMEOUT_S = 15 * 60;
/** The longest timeout in seconds, limited by the range of setTimeout. */
export const MAX_TIMEOUT_S = 2_000_000;

export function addBackendOption(command: Command): Command {
  return command.addOption(
    new Option(
      '--backend <name>',
      'backend of the tabs; auto: WebGPU if there is a GPU or --gpu is set, otherwise WebAssembly',
    )
      .choices(BACKEND_MODES)
      .default('auto'),
  );
}

export function addKernelsOption(command: Command): Command {
  return command.addOption(
    new Option('--kernels <name>', "WebGPU kernels of these tabs: peergrad's own, or TensorFlow.js's")
      .choices(GPU_KERNEL_CHOICES)
      .default('own'),
  );
}

export function addBrowserPath(command: Command): Command {
  return command.option(
    '--browser <path>',
    'path of Chrome, Chromium or Edge (default: PEERGRAD_BROWSER, or the first one found)',
  );
}

/** @param timeoutSeconds the default; `null`: no timeout. */
export function addBrowserOptions(command: Command, timeoutSeconds: number | null): Command {
  return addBrowserPath(command)
    .addOption(new Option('--gpu <mode>', 'device that WebGPU runs on').choices(GPU_MODES).default('auto'))
    .option(
      '--timeout <seconds>',
      'abort the run after this time (with --minutes: after the sum of both times)',
      wholeNumber(1, MAX_TIMEOUT_S),
      timeoutSeconds ?? undefined,
    );
}
