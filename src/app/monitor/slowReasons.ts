/** Finds out why this machine may compute slowly; pure. */
import type { ReportedDevice } from '../../protocol/room.ts';
import { SOFTWARE_RENDERER } from '../../util/gpuAdapter.ts';

/** The known facts about this tab and its machine. */
export interface MachineFacts {
  /** The device that computes in this tab; `null` until it is open. */
  device: ReportedDevice | null;
  /** Whether the page is a secure context. Browsers offer WebGPU in secure contexts only. */
  isSecure: boolean;
  /** Whether the browser offers WebGPU to this page. */
  hasWebGpu: boolean;
  /** Whether the page is hidden, or was hidden while steps were measured. */
  isHidden: boolean;
  /** Whether the machine runs on its battery; `null` if the browser does not report that. */
  isOnBattery: boolean | null;
  /** Whether the browser draws fewer frames to save energy, see {@link looksLikeLowPowerMode}. */
  savesFrames: boolean;
}

/**
 * - `hidden`: the page is hidden.
 * - `software`: the CPU simulates the GPU.
 * - `insecure`, `browser`, `adapter`: there is no WebGPU, because the page is not a secure context,
 *   because the browser lacks it, or because the browser finds no GPU for it.
 * - `battery`: the machine runs on its battery.
 * - `saver`: the browser or the system saves energy.
 */
export type SlowTabReason = 'hidden' | 'software' | 'insecure' | 'browser' | 'adapter' | 'battery' | 'saver';

/**
 * Milliseconds between two frames in low power modes, which draw 30 frames per second instead of 60
 * or more.
 */
const SAVED_FRAME_MS = 1000 / 30;
/**
 * The time between two frames may differ by this number of milliseconds from that of a low power
 * mode.
 */
const JITTER_MS = 2;
/**
 * A low power mode is assumed if at least this share of the frames has the period of such a mode.
 * On a machine that is only busy, the times between frames vary.
 */
const SAVED_SHARE = 0.8;

/**
 * Returns the reasons that apply. The reason that usually slows down the machine most comes first.
 */
export function findSlowTabReasons(facts: MachineFacts): SlowTabReason[] {
  const { device, isHidden, isOnBattery, savesFrames } = facts;
  const reasons: SlowTabReason[] = [];
  if (device !== null && device.backend !== 'webgpu') reasons.push(whyWithoutWebGpu(facts));
  else if (device !== null && SOFTWARE_RENDERER.test(device.adapter)) reasons.push('software');
  if (isHidden) reasons.push('hidden');
  if (isOnBattery === true) reasons.push('battery');
  // Few frames suggest a low power mode only if the battery's state is unknown. If the state is
  // known at this point, the machine is plugged in.
  else if (savesFrames && isOnBattery === null) reasons.push('saver');
  return reasons;
}

function whyWithoutWebGpu({ isSecure, hasWebGpu }: MachineFacts): SlowTabReason {
  if (!isSecure) return 'insecure';
  return hasWebGpu ? 'adapter' : 'browser';
}

/** Returns whether frames are as slow and as regular as in a low power mode. */
export function looksLikeLowPowerMode(frameMs: readonly number[]): boolean {
  const saved = frameMs.filter((ms) => Math.abs(ms - SAVED_FRAME_MS) <= JITTER_MS);
  return frameMs.length > 0 && saved.length >= SAVED_SHARE * frameMs.length;
}
