/** Creates realistic engine events for tests of the page. */
import type { RosterEntry } from '../../src/protocol/room.ts';
import type { EventOf } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';

export function member(name: string, ready = true): RosterEntry {
  return {
    member: `member-${name.toLowerCase()}`,
    name,
    device: ready ? { backend: 'webgpu', adapter: 'Test GPU' } : null,
    browser: 0,
    rank: null,
  };
}

/**
 * Returns the event of a step that took 40 ms and had 100 samples. Communication took 10 ms, of
 * which 4 ms were exposed.
 */
export function stepEvent(step: number): EventOf<'step'> {
  const ms = { total: 40, data: 0, compute: 25, readback: 3, communicate: 10, exposed: 4, update: 2 };
  return {
    type: 'step',
    step,
    epoch: 0,
    offset: 100 * step,
    loss: 2 / (step + 1),
    samples: 100,
    ms,
    at: 50 * step,
  };
}

export const RESULT: RunResult = {
  worldSize: 3,
  strategy: 'ddp',
  algorithm: 'ring',
  codec: 'fp32',
  bytesReceivedPerRank: [],
  backend: 'webgpu',
  adapter: 'Test GPU',
  transport: { webrtc: 3, server: 0, memory: 0 },
  steps: 10,
  epochs: 1,
  loss: 0.2,
  accuracy: 0.95,
  valLoss: 0.3,
  stateHash: ['a', 'a', 'a'],
  bytesSentPerRank: [1, 1, 1],
  otherBytesSentPerRank: [1, 1, 1],
  memoryBytesPerRank: [1, 1, 1],
  gradientBytes: 100,
  stepMs: { median: 40, p95: 50, data: 0, compute: 25, communicate: 10, exposed: 4 },
  losses: [],
  restarts: 0,
  ms: 400,
};
