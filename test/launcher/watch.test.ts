import { expect, test } from 'vitest';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { MethodTestResult, RunResult } from '../../src/protocol/runResult.ts';
import { disagreement, summarize } from '../../launcher/output/report.ts';
import { RunWatch } from '../../launcher/watch.ts';
import { ManualClock } from '../manualClock.ts';

const result = (...stateHash: string[]): RunResult => ({
  worldSize: 2,
  strategy: 'ddp',
  algorithm: 'ring',
  codec: 'fp32',
  bytesReceivedPerRank: [],
  backend: 'webgpu',
  adapter: 'test',
  transport: { webrtc: 1, server: 0, memory: 0 },
  steps: 40,
  epochs: 1,
  loss: 0.25,
  accuracy: 0.9,
  valLoss: 0.3,
  stateHash,
  bytesSentPerRank: [5e6, 5e6],
  otherBytesSentPerRank: [1, 1],
  memoryBytesPerRank: [1, 1],
  gradientBytes: 1e5,
  stepMs: { median: 50, p95: 60, data: 0, compute: 20, communicate: 20, exposed: 5 },
  losses: [1],
  restarts: 0,
  ms: 2000,
});
const state = (name: 'WAITING' | 'RUNNING'): EngineEvent => ({
  type: 'state',
  state: name,
  generation: 1,
  detail: '',
  isServerAway: false,
  connecting: [],
});

function watch(stallsWhileWaiting = true) {
  const clock = new ManualClock();
  const tabs = ['tab-1', 'tab-2'];
  return {
    clock,
    watch: new RunWatch({ tabs, timeoutMs: 900_000, stallMs: 120_000, stallsWhileWaiting, mayLoseTabs: false, clock }),
  };
}

test('RunWatch resolves when all tabs have finished, with their results in the order of the tabs', async () => {
  const { watch: w } = watch();
  w.on('tab-2', { type: 'finished', result: result('b') });
  w.on('tab-1', { type: 'finished', result: result('a') });
  expect((await w.done).map((r) => r.stateHash)).toEqual([['a'], ['b']]);
});

test('RunWatch rejects with the name and error of the first tab that fails', async () => {
  const { watch: w } = watch();
  w.on('tab-2', { type: 'failed', name: 'DeviceError', message: 'The GPU was lost', fatal: false });
  w.fail('tab-1', 'something else');
  await expect(w.done).rejects.toThrow('tab-2: The GPU was lost.');
});

test('RunWatch ignores failures of finished tabs', async () => {
  const { watch: w } = watch();
  const away = { type: 'failed', name: 'SignalingError', message: 'The server is away.', fatal: true } as const;
  w.on('tab-1', { type: 'finished', result: result('a') });
  w.on('tab-1', away);
  w.fail('tab-1', 'the tab crashed');
  w.on('tab-1', { type: 'state', state: 'OFFLINE', generation: 0, detail: '', isServerAway: false, connecting: [] });
  w.on('tab-2', { type: 'finished', result: result('a') });
  w.on('tab-2', away);
  expect(await w.done).toHaveLength(2);
});

test('RunWatch rejects if one tab fails after another tab has finished', async () => {
  const { watch: w } = watch();
  w.on('tab-1', { type: 'finished', result: result('a') });
  w.fail('tab-2', 'the tab crashed');
  await expect(w.done).rejects.toThrow('tab-2: the tab crashed.');
});

test('RunWatch rejects with the state of every tab if there is no progress for 120 s', async () => {
  const { clock, watch: w } = watch();
  w.on('tab-1', state('RUNNING'));
  w.on('tab-1', { type: 'step', step: 7 } as EngineEvent);
  clock.advance(100_000);
  w.on('tab-2', state('WAITING'));
  clock.advance(100_000);
  clock.advance(20_000);
  await expect(w.done).rejects.toThrow('no progress for 120 s: tab-1 is RUNNING after step 8, tab-2 is WAITING.');
});

test('RunWatch rejects after its timeout, even if the run makes progress', async () => {
  const { clock, watch: w } = watch();
  for (let i = 0; i < 10; i++) {
    w.on('tab-1', state('RUNNING'));
    clock.advance(90_000);
  }
  await expect(w.done).rejects.toThrow(
    /within 900 s \(tab-1 is RUNNING, tab-2 is OFFLINE\)\. Allow more time with --timeout/,
  );
});

test('RunWatch does not reject as long as all tabs wait for the host', async () => {
  const { clock, watch: w } = watch(false);
  w.on('tab-1', state('WAITING'));
  w.on('tab-2', state('WAITING'));
  clock.advance(800_000);
  w.on('tab-1', { type: 'finished', result: result('a') });
  w.on('tab-2', { type: 'finished', result: result('a') });
  expect(await w.done).toHaveLength(2);
});

test('disagreement returns null only if all tabs report the same hash for all ranks', () => {
  expect(disagreement([result('a', 'a'), result('a', 'a')])).toBeNull();
  expect(disagreement([result('a', 'b'), result('a', 'b')])).toMatch(/rank 0 a, rank 1 b/);
  expect(disagreement([result('a', 'a'), result('b', 'b')])).not.toBeNull();
  expect(disagreement([result('a'), result('a')])).not.toBeNull();
  expect(disagreement([])).not.toBeNull();
});

const over = (webrtc: number, server: number, memory: number): string =>
  summarize({ ...result('ab'), transport: { webrtc, server, memory } }).split(':')[0]!;

test('the summary of a run contains the number of links of each kind if there are several kinds', () => {
  const ranks = '2 ranks on webgpu (test)';
  expect([over(0, 2, 0), over(0, 0, 0)]).toEqual([`${ranks} through the server`, ranks]);
  expect(over(24, 2, 0)).toBe(`${ranks} with links of several kinds (24 over WebRTC, 2 through the server)`);
});

test('the summary of a run contains its steps, loss, times and bytes', () => {
  expect(summarize(result('ab', 'ab')).split('\n')).toEqual([
    '2 ranks on webgpu (test) over WebRTC: 40 steps in 2.0 s.',
    'Loss 0.2500, accuracy 90.0 %. State ab on every rank.',
    'A step took 50 ms (p95 60 ms): computation 20 ms, communication 20 ms (5.0 ms not overlapped).',
    'The busiest rank sent 5.00 MB; one gradient has 0.10 MB.',
  ]);
  expect(summarize({ ...result('ab'), accuracy: null })).toContain('\nLoss 0.2500. State ab on every rank.\n');
});

test('the summary of a comparison of methods contains their costs, and the options of the best method', () => {
  const cost = { stepMs: 40, bytesPerStep: 1000, timeToGoal: 1 };
  const methods: MethodTestResult = {
    ownMs: 30,
    latencyMs: 90,
    bytesPerMs: 1000,
    best: 'sparseloco',
    unchanged: 'ddp-int8',
    costs: [
      { method: 'ddp-int8', ...cost, timeToGoal: 2.5 },
      { method: 'sparseloco', ...cost },
    ],
  };
  expect(
    summarize({ ...result('ab'), methods })
      .split('\n')
      .slice(1, 5),
  ).toEqual([
    'Expected costs of each method:',
    '  --strategy ddp --codec int8: 40 ms and 1.0 kB per step, 2.5 times the shortest time to a goal',
    '  --strategy sparseloco: 40 ms and 1.0 kB per step, 1.0 times the shortest time to a goal',
    'Train with --strategy sparseloco. It does not learn exactly what ddp learns; of the methods that do, --strategy ddp --codec int8 is best.',
  ]);
});

test('the summary of a range test contains the suggested rate, or why there is none', () => {
  const rateTest = { rates: [1e-7, 0.52], losses: [2.3, 9], suggested: 0.0044, reason: null };
  expect(summarize({ ...result('ab'), rateTest }).split('\n')[1]).toBe(
    'Learning rates from 1e-7 to 0.52 were tried; the loss fell steepest at 0.0044: train with --lr 0.0044.',
  );
  for (const [reason, why] of [
    ['flat', 'the loss did not clearly fall. Use a larger --batch'],
    ['short', 'too few for a suggestion'],
  ] as const) {
    expect(summarize({ ...result('ab'), rateTest: { ...rateTest, suggested: null, reason } })).toContain(why);
  }
});
