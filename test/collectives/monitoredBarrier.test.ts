/** Tests of monitored barriers: the messages of other ranks that they accept and ignore. */
import { expect, test } from 'vitest';
import { MonitoredBarrier } from '../../src/collectives/diagnostics/monitoredBarrier.ts';
import { LinkActivity } from '../../src/collectives/diagnostics/opDeadline.ts';
import { UsageError } from '../../src/util/errors.ts';
import { ManualClock } from '../manualClock.ts';

/**
 * Creates the monitored barriers of one rank out of four. Messages of the other ranks are passed to
 * `receive`.
 */
function barrierOf(rank: number) {
  const clock = new ManualClock();
  let failure: Error | null = null;
  const barrier: MonitoredBarrier = new MonitoredBarrier({
    rank,
    ranks: [4, 5, 6, 7],
    clock,
    send: () => {},
    progress: new LinkActivity(),
    fail(error) {
      failure = error;
      barrier.fail(error);
    },
    failure: () => failure,
    context: () => ({}),
  });
  const pass = () =>
    barrier.pass({ timeoutMs: 1000 }).then(
      () => 'passed',
      (error: Error) => error.message,
    );
  const arrive = (number: number): void => {
    for (const from of [5, 6, 7]) barrier.receive('arrived', number, from);
  };
  return { barrier, clock, pass, arrive };
}

test('rank 0 remembers ranks that arrive before it does, at each of the next 64 barriers', async () => {
  const { pass, arrive } = barrierOf(0);
  for (let number = 0; number < 64; number++) arrive(number);
  for (let number = 0; number < 64; number++) expect(await pass()).toBe('passed');
});

test('rank 0 ignores arrivals at the 65th barrier ahead, which no rank can have reached yet', async () => {
  const { clock, pass, arrive } = barrierOf(0);
  arrive(64);
  for (let number = 0; number < 64; number++) {
    const passed = pass();
    arrive(number);
    expect(await passed).toBe('passed');
  }
  const late = pass();
  clock.advance(1000);
  expect(await late).toMatch(/Rank 5 failed to pass/);
});

test('a rank can wait in 64 barriers at the same time, and a further barrier is rejected', async () => {
  const { barrier, pass } = barrierOf(1);
  const passes = Array.from({ length: 64 }, pass);
  await expect(barrier.pass({ timeoutMs: 1000 })).rejects.toThrow(UsageError);
  for (let number = 0; number < 64; number++) barrier.receive('passed', number, 4);
  expect(new Set(await Promise.all(passes))).toEqual(new Set(['passed']));
});

test('a rank waits until rank 0 releases it, and ignores other ranks that send a release', async () => {
  const { barrier, clock, pass } = barrierOf(1);
  const passed = pass();
  barrier.receive('passed', 0, 6);
  clock.advance(1500);
  expect(await passed).toMatch(/rank 4 did not let it pass/);
});

test('the arrival of rank 0 extends the wait of another rank only once', async () => {
  const { barrier, clock, pass } = barrierOf(1);
  const passed = pass();
  for (let i = 0; i < 3; i++) {
    clock.advance(1000);
    barrier.receive('arrived', 0, 4);
  }
  expect(await passed).toMatch(/rank 4 did not let it pass/);
});
