/**
 * A page for tests: one rank of a world over WebRTC. It runs this rank's part of the conformance
 * cases.
 */
import * as tf from '@tensorflow/tfjs';
import { destroyProcessGroup, initProcessGroup, type ProcessGroup } from '../../src/index.ts';
import { asError, errorMessageOf } from '../../src/util/errors.ts';
import { CASES } from './cases.ts';
import { runRank } from './runner.ts';
import { ALL_REDUCE_LOOP } from './timeouts.ts';
import { range } from './values.ts';

declare global {
  interface Window {
    /**
     * Opens a room for `worldSize` tabs, or joins `room`. Resolves with this tab's rank once all
     * tabs have joined.
     */
    joinWorld: (room: string | null, worldSize: number, timeoutMs?: number) => Promise<number>;
    onroom: (room: string) => void;
    /**
     * Runs this rank's part of `CASES[index]` on the first `n` ranks. Resolves with the failure;
     * `null` if the case passes.
     */
    runConformanceCase: (index: number, n: number) => Promise<string | null>;
    /**
     * Calls allReduce `rounds` times, or until a call fails. Resolves with the error; `null`
     * without an error.
     */
    loop: (timeoutMs: number, rounds: number) => Promise<{ name: string; message: string } | null>;
    leaveWorld: () => Promise<void>;
  }
}

let world: ProcessGroup;

window.joinWorld = async (room, worldSize, timeoutMs) => {
  // The models of the cases are tiny, so the CPU is fast enough.
  await tf.setBackend('cpu');
  world = await initProcessGroup({
    server: location.origin,
    // WebRTC, the transport between machines, also in tabs of one browser.
    transport: 'webrtc',
    ...(room === null ? { worldSize, onroom: window.onroom } : { room }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  });
  return world.rank;
};

window.runConformanceCase = async (index, n) => {
  const entry = CASES[index]!;
  if ('check' in entry) return 'This case does not run in a group.';
  const group = entry.needsWorld ? world : await world.newGroup(range(n));
  try {
    if (group.rank >= 0) await runRank(entry, group, n);
    return null;
  } catch (error) {
    // Without this, the other ranks would wait for this rank.
    group.abort(asError(error));
    return errorMessageOf(error);
  } finally {
    if (group !== world) group.destroy();
  }
};

window.leaveWorld = () => destroyProcessGroup(world);

window.loop = async (timeoutMs, rounds) => {
  world.timeoutMs = timeoutMs;
  try {
    for (let round = 0; round < rounds; round++) await ALL_REDUCE_LOOP(world, round);
    return null;
  } catch (error) {
    const { name, message } = asError(error);
    return { name, message };
  }
};
