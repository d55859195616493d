/** What a page is told when its tab enters a generation of a run or of a lesson. */
import { expect, test } from 'vitest';
import { LessonRun } from '../../../src/engine/lesson/lesson.ts';
import { emitNeighbourLinks, openRunGroup, type Generation } from '../../../src/engine/membership/generation.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { createMeshes } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { PeergradError } from '../../../src/util/errors.ts';

const SEPARATED = [[0, 2]] as const;

/** Returns the first rank's generation of four ranks, two of which are kept apart. */
function firstOfFour(signal: AbortSignal): { generation: Generation; close: () => void } {
  const { meshes, links, close } = createMeshes(4);
  const members = [0, 1, 2, 3].map((i) => {
    return { member: `m${i}`, name: `m${i}`, device: null, browser: i, rank: null };
  });
  const generation = {
    ...{ generation: 1, run: 3, rank: 0, worldSize: 4, localRank: 0, localWorldSize: 1, members, separated: SEPARATED },
    ...{ job: parseJob({ job: 'lesson' }), mesh: meshes[0]!, links: links[0]!, signal },
  };
  return { generation, close };
}

test('a page receives events with the ranks, the separated pairs and the links of a generation', async () => {
  const { generation, close } = firstOfFour(new AbortController().signal);
  const events: EngineEvent[] = [];
  const emit = (event: EngineEvent): void => void events.push(event);
  const group = openRunGroup(generation, { clock: systemClock, emit });
  await emitNeighbourLinks(generation, emit);
  const { run, rank, worldSize, separated } = generation;
  expect(events[0]).toMatchObject({ type: 'generation', generation: 1, run, rank, worldSize, separated });
  expect(events.slice(1)).toEqual([
    { type: 'link', peerRank: 1, up: true, route: 'memory', roundTripMs: 0 },
    { type: 'link', peerRank: 3, up: true, route: 'memory', roundTripMs: 0 },
  ]);
  group.destroy();
  close();
});

test('a lesson names separated ranks', async () => {
  const over = new AbortController();
  const { generation, close } = firstOfFour(over.signal);
  const events: EngineEvent[] = [];
  const lesson = new LessonRun({
    ...{ member: 'm0', clock: systemClock, isHost: () => true },
    emit: (event) => void events.push(event),
  });
  const entered = lesson.enter(generation);
  expect(events[0]).toMatchObject({ type: 'generation', separated: SEPARATED });
  over.abort(new PeergradError('Another generation begins.'));
  await expect(entered).rejects.toThrow('Another generation begins.');
  lesson.dispose();
  close();
});
