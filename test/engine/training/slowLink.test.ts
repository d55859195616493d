/**
 * A ring with one slow link. A rank detects the link, and the run continues in another ring order.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SlowLinkDetector } from '../../../src/engine/training/telemetry/slowLink.ts';
import { edgeKey, neighbours } from '../../../signaling/room/edges.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { VirtualClock } from '../../virtualClock.ts';
import { Play } from '../../signaling/room/play.ts';
import {
  areContiguous,
  COUNTING_PLAN,
  countedOnce,
  createCountingTask,
  createMember,
  runGeneration,
  stepsOf,
} from '../worlds.ts';

// Measured times depend only on the links, not on the load of the machine.
let clock: VirtualClock;
beforeEach(() => (clock = new VirtualClock()));
afterEach(() => clock.stop());

const SAMPLES = 96;
/** A chunk of 16 KiB takes 16 ms over this link. */
const SLOW = { rank: 1, bytesPerMs: 1024 };

test('the room separates two ranks whose link is reported as slow, and each sample is applied once', async () => {
  const room = Play.running(4, { nodes: { min: 1, max: 4 } });
  const all = await Promise.all(
    room.ring.map((name) => createMember(name, createCountingTask({ samples: SAMPLES }), COUNTING_PLAN, { clock })),
  );
  try {
    expect((await runGeneration(all, { clock, slow: SLOW, end: { rank: 0, step: 6, frame: 5 } })).isBroken).toBe(true);
    const reports = all.map(({ events }, rank) => reportsOf(rank, room, events));
    expect(reports).toEqual([[], [{ generation: 1, peer: room.ring[2] }], [], []]);

    const slow = { type: 'slow', member: room.ring[1]!, ...reports[1]![0]! } as const;
    room.do(slow).train();
    const pairs = neighbours(room.ring).map(([a, b]) => edgeKey(a, b));
    expect(pairs).not.toContain(edgeKey(slow.member, slow.peer));

    const members = room.ring.map((name) => all.find((member) => member.name === name)!);
    for (const result of (await runGeneration(members, { clock })).results)
      expect(result).toMatchObject({ worldSize: 4 });
    const steps = stepsOf(members);
    expect(areContiguous(steps, SAMPLES)).toBe(true);
    for (const member of members) expect(member.values().slice(0, SAMPLES)).toEqual(countedOnce(steps, SAMPLES));
  } finally {
    for (const member of all) member.dispose();
  }
});

/** Returns a report that rank 1 has some of the 2 bytes of all files. */
const arrival = (bytes: number): EngineEvent => ({
  ...{ type: 'distribution', what: 'files', generation: 1, total: 2 },
  bytesPerRank: [2, bytes, 2, 2],
});

test('a slow link is reported only after the slices of files that cross it have arrived', async () => {
  const room = Play.running(4, { nodes: { min: 1, max: 4 } });
  const all = await Promise.all(
    room.ring.map((name) => createMember(name, createCountingTask({ samples: SAMPLES }), COUNTING_PLAN, { clock })),
  );
  await runGeneration(all, { clock, slow: SLOW, end: { rank: 0, step: 6, frame: 5 } });
  const { events } = all[SLOW.rank]!;
  expect(reportsOf(SLOW.rank, room, [arrival(1), ...events])).toEqual([]);
  expect(reportsOf(SLOW.rank, room, [arrival(1), arrival(2), ...events])).toHaveLength(1);
  for (const member of all) member.dispose();
});

test('no link is reported if all links are equally fast', async () => {
  const room = Play.running(4, { nodes: { min: 1, max: 4 } });
  const all = await Promise.all(
    room.ring.map((name) => createMember(name, createCountingTask({ samples: SAMPLES }), COUNTING_PLAN, { clock })),
  );
  await runGeneration(all, { clock });
  expect(all.flatMap(({ events }, rank) => reportsOf(rank, room, events))).toEqual([]);
  for (const member of all) member.dispose();
});

function reportsOf(
  rank: number,
  { state }: Play,
  events: readonly EngineEvent[],
): { generation: number; peer: string }[] {
  const link = new SlowLinkDetector();
  const { generation, run, ring } = state;
  const members = [...ring];
  const world = { rank, worldSize: ring.length, localRank: 0, localWorldSize: 1 };
  link.observe({ type: 'generation', generation, run, ...world, members, job: DEFAULT_JOB });
  return events.flatMap((event) => link.observe(event) ?? []);
}
