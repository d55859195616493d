/** Rank 0 sends updates to spectators, and spectators turn the updates into events. */
import { describe, expect, test } from 'vitest';
import { Spectator } from '../../../src/engine/spectators/spectator.ts';
import { SpectatorFeed } from '../../../src/engine/spectators/spectatorFeed.ts';
import { initialTabView, reduceTabView } from '../../../src/app/state/view.ts';
import { samplesPerSecond, timeLeftMs } from '../../../src/app/state/derive.ts';
import { MAX_CLASS_NAME_LENGTH, MAX_CONFUSED_CLASSES } from '../../../src/protocol/confusion.ts';
import { MAX_SPECTATOR_UPDATE_LENGTH } from '../../../src/protocol/control.ts';
import { MAX_WORLD_SIZE } from '../../../src/protocol/scalars.ts';
import type { RosterEntry } from '../../../src/protocol/room.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import type { HopEvent } from '../../../src/protocol/stepTrace.ts';
import type { AllReduceName } from '../../../src/spec/algorithms.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { spectatorEventOf, parseSpectatorUpdate } from '../../../src/protocol/spectatorUpdate.ts';
import { member, RESULT, stepEvent } from '../../app/events.ts';
import { ManualClock } from '../../manualClock.ts';

const people = (n: number): RosterEntry[] =>
  Array.from({ length: n }, (_, i) => ({ ...member('Ada'), name: `Ada ${i}` }));
const generationEvent = (generation: number, n = 2, rank = 0, run = 1): EngineEvent => ({
  ...{ type: 'generation', generation, run, rank, worldSize: n, localRank: 0, localWorldSize: n },
  ...{ members: people(n), job: DEFAULT_JOB },
});
const MODEL: EngineEvent = {
  ...{ type: 'model', parameters: 10, gradientBytes: 40, bucketBytes: [40], totalSteps: 2000 },
  ...{ trainSamples: 1000, testSamples: 100 },
};
const tested = (step: number): EngineEvent => ({ type: 'evaluation', step, loss: 1, accuracy: 0.5, samples: 100 });
const hashes = (step: number, n = 2): EngineEvent => ({
  ...{ type: 'hashes', step, agree: true },
  hashes: Array.from({ length: n }, () => '0123456789abcdef'),
});
const ranks = (step: number, n: number): EngineEvent => ({
  ...{ type: 'ranks', step },
  ranks: Array.from({ length: n }, (_, rank) => ({
    ...{ rank, dataMs: 0, computeMs: 12.345678, communicateMs: 3.456789, stepMs: 20.123456 },
    ...{ gradientBytesSent: 1e9 + rank, otherBytesSent: 1e7, gradientBytesReceived: 1e9, memoryBytes: 1e9 },
  })),
});
const confusion = (step: number, classes: number): EngineEvent => ({
  ...{ type: 'confusion', step, classes: Array.from({ length: classes }, () => 'c'.repeat(MAX_CLASS_NAME_LENGTH)) },
  counts: Array.from({ length: classes }, () => Array<number>(classes).fill(99_999)),
});
const hop = (planStep: number): HopEvent => ({
  ...{ planStep, sentAt: 123456.789012, receivedAt: 123457.890123 },
});
const trace = (step: number, n: number, algorithm: AllReduceName = 'ring'): EngineEvent => {
  const hops = Array.from({ length: 2 * (n - 1) }, (_, planStep) => hop(planStep));
  return { type: 'trace', step, bucket: 0, bytes: 40, algorithm, startedAt: 1, hops };
};

/** A rank that sends updates, and a list of the updates that it has sent. */
function telling(...events: EngineEvent[]) {
  const clock = new ManualClock();
  const digests: string[] = [];
  const teller = new SpectatorFeed({ clock, send: (update) => digests.push(update) });
  const see = (...more: EngineEvent[]): void => more.forEach((event) => teller.observe(event));
  see(...events);
  return { clock, digests, teller, see };
}

/** A spectator, and a list of the events that it emits for its page. */
function watching() {
  const events: EngineEvent[] = [];
  const spectator = new Spectator((event) => events.push(event));
  const stepsShown = (): number[] => events.flatMap((event) => (event.type === 'step' ? [event.step] : []));
  return { events, spectator, stepsShown };
}
const SHARES: EngineEvent = {
  ...{ type: 'shares', step: 8, shares: [6, 2], reason: 'speed', speeds: [300, null] },
  impossible: [{ rank: 1, reported: 'NaN' }],
};
const PIPELINE: EngineEvent = {
  ...{ type: 'pipeline', ranks: 2, replicas: 1, microBatches: 4, schedule: '1f1b', ring: true },
  ...{
    layers: [
      { name: 'embedding', bytes: 64 },
      { name: 'norm', bytes: 16 },
    ],
    cut: [1, 1, 0],
  },
};
const typesOf = (update: string): string[] => parseSpectatorUpdate(update).map(({ type }) => type);

describe('a rank', () => {
  test('sends no updates without spectators, and sends all stored events to a new spectator', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1), MODEL);
    for (let step = 0; step < 1000; step++) see(stepEvent(step));
    see(PIPELINE, tested(999), { type: 'algorithm', step: 0, algorithm: 'ring' }, SHARES, hashes(999));
    clock.advance(60_000);
    expect(digests).toEqual([]);
    teller.audience = ['wu'];
    clock.advance(0);
    expect(typesOf(digests[0]!).filter((type) => type !== 'step')).toEqual([
      'generation',
      'model',
      'evaluation',
      'pipeline',
      'algorithm',
      'shares',
      'hashes',
    ]);
    const steps = parseSpectatorUpdate(digests[0]!).flatMap((event) => (event.type === 'step' ? [event.step] : []));
    expect(steps.length).toBeGreaterThan(30);
    expect([steps[0], steps.at(-1)]).toEqual([expect.any(Number), 999]);
    expect(steps[0]).toBeLessThan(50);
  });

  test('sends events about the model and the links with the next update if they come after the start of the generation', () => {
    const { clock, digests, teller, see } = telling();
    teller.audience = ['wu'];
    see(generationEvent(1, 3));
    clock.advance(0);
    const link: EngineEvent = { type: 'link', peerRank: 1, up: true, route: 'direct', roundTripMs: 2 };
    see(MODEL, { ...link, up: false, route: 'unknown', roundTripMs: null }, link, { ...link, peerRank: 2 });
    clock.advance(1000);
    see(stepEvent(0));
    clock.advance(1000);
    expect(digests.map(typesOf)).toEqual([['generation'], ['model', 'link', 'link'], ['step']]);
    expect(parseSpectatorUpdate(digests[1]!)[1]).toMatchObject({ peerRank: 1, up: true });
  });

  test('sends at most one update per second, with some of the steps and only the latest of other events', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1), MODEL);
    teller.audience = ['wu'];
    clock.advance(0);
    for (let step = 0; step < 100; step++) see(stepEvent(step), trace(step, 2));
    clock.advance(999);
    expect(digests).toHaveLength(1);
    clock.advance(1);
    expect(digests).toHaveLength(2);
    expect(
      parseSpectatorUpdate(digests[1]!)
        .map((event) => ('step' in event ? event.step : event.type))
        .slice(-3),
    ).toEqual([92, 99, 99]);
    expect(typesOf(digests[1]!).filter((type) => type === 'trace')).toHaveLength(1);
    clock.advance(60_000);
    expect(digests).toHaveLength(2);
  });

  test('sends the trace of the algorithm that sends the most bytes, even if the last bucket used another algorithm', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1), MODEL);
    teller.audience = ['wu'];
    see({ type: 'algorithm', step: 0, algorithm: 'two-level' });
    see(trace(0, 2, 'two-level'), trace(0, 2, 'halving-doubling'), stepEvent(0));
    clock.advance(1000);
    const traces = digests.flatMap(parseSpectatorUpdate).filter(({ type }) => type === 'trace');
    expect(traces).toMatchObject([{ algorithm: 'two-level' }]);
  });

  test('sends the first and the last step of a run that ends within a second', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1), MODEL);
    teller.audience = ['wu'];
    clock.advance(0);
    for (let step = 0; step < 24; step++) see(stepEvent(step));
    see({ type: 'finished', result: { ...RESULT, losses: [2, 1] } });
    const { spectator, stepsShown } = watching();
    for (const update of digests) spectator.receive(update);
    expect([stepsShown()[0], stepsShown().at(-1), stepsShown().length]).toEqual([0, 23, 16]);
  });

  test('sends the end of the run immediately', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1), MODEL);
    teller.audience = ['wu'];
    clock.advance(0);
    see(stepEvent(0), { type: 'finished', result: { ...RESULT, losses: [2, 1] } });
    expect(typesOf(digests[1]!)).toEqual(['step', 'finished']);
    expect(parseSpectatorUpdate(digests[1]!)[1]).toMatchObject({ result: { losses: [], steps: RESULT.steps } });
  });

  test('sends a suggested learning rate unchanged even if the rate is very low', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1), MODEL);
    teller.audience = ['wu'];
    clock.advance(0);
    const rateTest = { rates: [1e-7, 1e-6], losses: [2, 1], suggested: 1.2e-7, reason: null };
    see(stepEvent(0), { type: 'finished', result: { ...RESULT, rateTest } });
    expect(parseSpectatorUpdate(digests[1]!)[1]).toMatchObject({
      result: { rateTest: { ...rateTest, rates: [], losses: [] } },
    });
  });

  test('sends updates to spectators only after it has become rank 0', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1, 2, 1), MODEL, stepEvent(0));
    teller.audience = ['wu'];
    clock.advance(2_000);
    see(generationEvent(2, 2, 0), stepEvent(1));
    clock.advance(2_000);
    // The update contains the events from before this rank became rank 0.
    expect(parseSpectatorUpdate(digests.join()).map((event) => ('step' in event ? event.step : event.type))).toEqual([
      'generation',
      0,
      1,
    ]);
  });

  test('repeats all stored events from time to time, for spectators that missed an update', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1), MODEL);
    teller.audience = ['wu'];
    for (let step = 0; step < 32; step++) {
      see(stepEvent(step));
      clock.advance(1_000);
    }
    expect(digests.filter((update) => typesOf(update)[0] === 'generation')).toHaveLength(3);
  });

  test('divides events among several short updates in the largest world, and begins with part of the loss curve', () => {
    const n = MAX_WORLD_SIZE;
    const { clock, digests, teller, see } = telling(generationEvent(1, n), MODEL);
    for (let step = 0; step < 5000; step++) see(stepEvent(step), tested(step));
    see(hashes(4999, n), ranks(4999, n), trace(4999, n), confusion(4999, MAX_CONFUSED_CLASSES));
    teller.audience = ['wu'];
    clock.advance(0);
    expect(typesOf(digests[0]!).filter((type) => type === 'step').length).toBeGreaterThan(10);
    for (let step = 5000; step < 5002; step++) {
      see(stepEvent(step));
      clock.advance(1_000);
    }
    for (const update of digests) expect(update.length).toBeLessThanOrEqual(MAX_SPECTATOR_UPDATE_LENGTH);
    expect(new Set(digests.flatMap(typesOf))).toEqual(
      new Set(['generation', 'model', 'step', 'evaluation', 'confusion', 'hashes', 'ranks', 'trace']),
    );
  });

  test('sends no events with invalid numbers and no events that are not for spectators', () => {
    expect(spectatorEventOf({ ...stepEvent(0), loss: Number.NaN })).toBeNull();
    expect(spectatorEventOf({ type: 'note', message: 'x' })).toBeNull();
    const { clock, digests, teller } = telling(generationEvent(1), { ...stepEvent(0), loss: Infinity }, stepEvent(1));
    teller.audience = ['wu'];
    clock.advance(0);
    expect(typesOf(digests[0]!)).toEqual(['generation', 'step']);
  });
});

describe('a spectator', () => {
  test('emits each event of the rank once', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1), MODEL);
    const { events, spectator, stepsShown } = watching();
    teller.audience = ['wu'];
    clock.advance(0);
    for (let step = 0; step < 20; step++) {
      see(stepEvent(step));
      if (step % 5 === 4) see(tested(step), hashes(step));
      clock.advance(1_000);
    }
    for (const update of digests) spectator.receive(update);
    for (const update of digests) spectator.receive(update);
    expect(stepsShown()).toEqual(Array.from({ length: 20 }, (_, step) => step));
    expect(events.filter(({ type }) => type === 'generation' || type === 'hashes')).toHaveLength(1 + 4);
  });

  test('knows the samples per second, even if it does not receive every step', () => {
    const { clock, digests, teller, see } = telling(generationEvent(1), MODEL);
    teller.audience = ['wu'];
    clock.advance(0);
    for (let step = 0; step < 100; step++) see(stepEvent(step));
    clock.advance(1_000);
    const { events, spectator } = watching();
    for (const update of digests) spectator.receive(update);
    const { run } = events.reduce(reduceTabView, initialTabView);
    // Each step has 100 samples and takes 50 ms.
    expect(samplesPerSecond(run!)).toBeCloseTo(2000, 0);
    expect(timeLeftMs(run!, 200)).toBeCloseTo(100 * 50, 0);
  });

  test('emits nothing before it has received the generation of a run, and ignores invalid events', () => {
    const { events, spectator } = watching();
    for (const divergent of ['', '{}', 'null', '[1,null,{"type":"generation"}]', `[${JSON.stringify(stepEvent(3))}]`]) {
      spectator.receive(divergent);
    }
    expect(events).toEqual([]);
    const broken = { ...stepEvent(3), ms: null };
    spectator.receive(JSON.stringify([generationEvent(4), broken, { ...stepEvent(5), more: 'x' }]));
    expect(events).toEqual([generationEvent(4), stepEvent(5)]);
    const uneven = { ...confusion(5, 2), counts: [[1, 2], [3]] };
    spectator.receive(JSON.stringify([uneven, confusion(5, MAX_CONFUSED_CLASSES + 1), confusion(5, 2)]));
    expect(events.slice(2)).toEqual([confusion(5, 2)]);
  });

  test('emits the result of the run, or only the end if no result has arrived', () => {
    const room = { run: 1, phase: 'FORMING' } as Parameters<Spectator['follow']>[0];
    const finished = JSON.stringify([generationEvent(1), { type: 'finished', result: RESULT }]);
    const last = (end: (spectator: Spectator) => void): unknown => {
      const { events, spectator } = watching();
      spectator.receive(finished);
      end(spectator);
      spectator.end({ outcome: 'stopped', message: 'Again.' });
      spectator.follow(room);
      return events.at(-1);
    };
    expect(last((one) => one.end({ outcome: 'finished', message: 'All have.' }))).toEqual({
      type: 'finished',
      result: RESULT,
    });
    expect(last((one) => one.end({ outcome: 'stopped', message: 'The host.' }))).toMatchObject({
      type: 'failed',
      message: 'The host.',
      fatal: false,
    });
    expect(last((one) => one.follow(room))).toMatchObject({
      type: 'failed',
      message: expect.stringMatching(/had already ended/),
    });
    // A server that has just restarted does not know the run yet, so the spectator must not end it.
    const { events, spectator } = watching();
    spectator.receive(finished);
    spectator.follow({ ...room, run: 0 });
    expect(events).toHaveLength(1);
  });
});
