/** A room's invariants, checked for random events of a few members. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { createRoom, step } from '../../../signaling/room/index.ts';
import { BROWSERS, helpful, script } from './randomEvents.ts';

test('a room satisfies its invariants after any random events', () => {
  const phases = new Set<string>();
  const outcomes = new Set<string>();
  let mixedRings = 0;
  let startedAgain = 0;
  fc.assert(
    fc.property(script, fc.constantFrom(null, 1, 2, 3), (events, startAt) => {
      let state = createRoom({ job: DEFAULT_JOB, startAt, nodes: null, capacity: 4 });
      let isTimed = false;
      for (const [wild, pick] of events) {
        const event = pick < 15 ? wild : helpful(state, pick / 100);
        const before = state;
        const { state: after, effects } = step(before, event);
        state = after;
        phases.add(after.phase);

        expect(after.generation - before.generation === 0 || after.generation - before.generation === 1).toBe(true);
        expect(after.members.length).toBeLessThanOrEqual(4);
        expect(new Set(ids(after.members)).size).toBe(after.members.length);
        expect(after.ring.length > 0).toBe(after.phase !== 'FORMING');
        const [wereHere, areHere] = [before, after].map((room) => [...ids(room.members), ...ids(room.spectators)]);
        expect([...after.hidden.keys()].sort()).toEqual(areHere!.toSorted());
        expect(after.ring.some(({ member: id }) => ids(after.spectators).includes(id))).toBe(false);
        const asked = after.members.flatMap((m) => m.rank ?? []);
        expect(new Set(asked).size).toBe(asked.length);
        const told = JSON.stringify(effects);
        expect(BROWSERS.filter((name) => told.includes(name))).toEqual([]);
        expect(after.phase !== 'FORMING' && after.reports.size >= after.ring.length).toBe(false);

        for (const effect of effects) {
          if (effect.type === 'setTimer') isTimed ||= effect.key === 'deadline';
          else if (effect.type === 'clearTimer') isTimed &&= effect.key !== 'deadline';
          else if (effect.type === 'send' && effect.message.type === 'prepare') {
            // The index is the rank: the requested rank or, without a request, the next one in the
            // order of joining. All ranks receive the message.
            expect(effect.message.members).toEqual(after.ring);
            expect(effect.to).toEqual(ids(after.ring));
            expect(after.ring.filter((one, rank) => (one.rank ?? rank) !== rank)).toEqual([]);
            const others = after.members.filter((m) => m.rank === null && effect.to.includes(m.member));
            expect(after.ring.filter((m) => m.rank === null)).toEqual(others);
            expect(after.ring.every((m) => m.device !== null)).toBe(true);
            if (event.type !== 'start') expect(after.ring.length).toBe(startAt);
            if (others.length > 0 && others.length < after.ring.length) mixedRings++;
            if (startAt !== null && after.generation > 1 && event.type !== 'start') startedAgain++;
          } else if (effect.type === 'send' && effect.message.type !== 'refused') {
            expect(effect.to.filter((id) => !areHere!.includes(id))).toEqual([]);
            if (effect.message.type === 'spectator-update') expect(effect.to).toEqual(ids(after.spectators));
          }
        }
        // LINKING and SYNCING have deadlines on the server; training has none.
        expect(isTimed).toBe(after.phase === 'LINKING' || after.phase === 'SYNCING');

        // If all ranks have left, a room may start again in the same step.
        const isOff = after.phase === 'FORMING' || after.generation > before.generation;
        const isOver = before.phase !== 'FORMING' && isOff && areHere!.length > 0;
        const endings = effects.flatMap((e) => (e.type === 'send' && e.message.type === 'ended' ? [e] : []));
        expect(endings.length).toBe(isOver ? 1 : 0);
        for (const { to, message } of endings) {
          if (message.type === 'ended') outcomes.add(message.outcome);
          expect(message).toMatchObject({ run: before.run });
          expect(to).toEqual(areHere);
        }
        if (areHere!.length === 0 && wereHere!.length > 0) {
          expect(effects).toContainEqual({ type: 'empty' });
        }
      }
    }),
    { numRuns: 200 },
  );
  // The random events must reach every phase.
  expect([...phases].sort()).toEqual(['FORMING', 'LINKING', 'RUNNING', 'SYNCING']);
  expect([...outcomes].sort()).toEqual(['failed', 'finished']);
  expect(mixedRings).toBeGreaterThan(0);
  expect(startedAgain).toBeGreaterThan(0);
});

function ids(members: readonly { member: string }[]): string[] {
  return members.map((m) => m.member);
}
