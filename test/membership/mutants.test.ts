/** Each law is one that the schedules can see broken: with a fault put into the room, the members or the run, they find it. */
import { describe, expect, test } from 'vitest';
import { step as stepRoom, type RoomEffect, type RoomState } from '../../signaling/room/index.ts';
import { advance as advanceMember } from '../../src/engine/membership.ts';
import { deal, reconcile, type ChooseSource } from './replica.ts';
import { playActions, playSeed, shrink, type Outcome } from './schedule.ts';
import { REAL_PARTS, type Parts } from './world.ts';

/** Schedules in which a fault has to show; most do within a hundred. */
const ENOUGH = 20_000;

/** The first schedule in which `law` is broken. */
function find(law: string, mutant: Partial<Parts>): { outcome: Outcome; parts: Parts } | null {
  const parts = { ...REAL_PARTS, ...mutant };
  for (let seed = 0; seed < ENOUGH; seed++) {
    const outcome = playSeed(seed, parts);
    if (outcome.violation?.law === law) return { outcome, parts };
  }
  return null;
}

/** The room's function with something done to what it answers. */
const roomThat =
  (
    change: (effects: RoomEffect[], before: RoomState, after: RoomState, type: string) => RoomEffect[],
  ): Parts['stepRoom'] =>
  (before, event) => {
    const { state, effects } = stepRoom(before, event);
    return { state, effects: change([...effects], before, state, event.type) };
  };
/** The room's function in a room that takes itself for another. */
const roomAs =
  (change: Partial<RoomState>): Parts['stepRoom'] =>
  (before, event) => {
    const { state, effects } = stepRoom({ ...before, ...change }, event);
    const own = Object.fromEntries(Object.keys(change).map((key) => [key, before[key as keyof RoomState]]));
    return { state: { ...state, ...own }, effects };
  };
const isMessage = (effect: RoomEffect, ...types: string[]): boolean =>
  effect.type === 'send' && types.includes(effect.message.type);

/** Of several the last rank. */
const mostSteps: ChooseSource = (statuses, run) => {
  const known = statuses.filter((one) => one.run === run);
  const most = Math.max(...known.map(({ hashes }) => hashes.length));
  return statuses.findLastIndex((one) => one.run === run && one.hashes.length === most);
};

const MUTANTS: [law: string, fault: string, mutant: Partial<Parts>][] = [
  [
    'I1',
    'who returns hears of an epoch with its ranks in another order',
    {
      stepRoom: roomThat((effects, _before, _after, type) =>
        effects.map((effect) =>
          type === 'return' && effect.type === 'send' && effect.message.type === 'prepare'
            ? { ...effect, message: { ...effect.message, members: [...effect.message.members].reverse() } }
            : effect,
        ),
      ),
    },
  ],
  ['I1', 'a room that is revived counts on from what it has heard', { stepRoom: roomAs({ numbersFrom: 0 }) }],
  [
    'I2',
    'the first to have compared states is told to train',
    {
      stepRoom: roomThat((effects, before, { epoch, ring }, type) =>
        type === 'synced' && before.epoch === epoch
          ? [...effects, { type: 'send', to: ring.map((m) => m.member), message: { type: 'go', epoch } }]
          : effects,
      ),
    },
  ],
  [
    'I2',
    'the room does not compare the states',
    {
      stepRoom: (before, event) =>
        stepRoom(before, event.type === 'synced' ? { ...event, step: 0, stateHash: 'same' } : event),
      reconcile: (statuses, rank, source, run) =>
        statuses[rank]!.run === run ? statuses[rank]! : reconcile(statuses, rank, source, run),
    },
  ],
  [
    'I3',
    'a rank that takes over a state keeps the gradients it computed in its own',
    {
      reconcile: (statuses, rank, source, run) => ({
        ...reconcile(statuses, rank, source, run),
        held: statuses[rank]!.held,
      }),
    },
  ],
  ['I4', 'the state with the most steps wins, whoever trained last', { chooseSource: mostSteps }],
  [
    'I4',
    'the fewest steps win',
    {
      chooseSource: (statuses, run) => {
        const known = statuses.filter((one) => one.run === run).map((one) => one.hashes.length);
        return statuses.findIndex((one) => one.run === run && one.hashes.length === Math.min(...known));
      },
    },
  ],
  [
    'I4',
    'what nobody holds of a window is dealt to nobody',
    {
      deal: (replicas, epoch) => {
        const dealt = deal(replicas, epoch);
        return dealt.keeps.some((mask) => mask !== 0) ? { ...dealt, parts: dealt.keeps } : dealt;
      },
    },
  ],
  [
    'I4',
    'two ranks that hold the same sample both count it',
    {
      deal: (replicas, epoch) => {
        const dealt = deal(replicas, epoch);
        const keeps = replicas.map(({ held }) => (held?.dealtIn === dealt.dealtIn ? held.mask : 0));
        return { ...dealt, keeps, parts: dealt.parts.map((part, rank) => part | keeps[rank]!) };
      },
    },
  ],
  ['I4', 'a step is applied with the gradients of those who were there first', { needsAll: false }],
  [
    'I5',
    'the room takes any number of ranks',
    {
      stepRoom: (before, event) => {
        const { state, effects } = stepRoom(
          (before.nodes && { ...before, nodes: { min: 1, max: 64 } }) || before,
          event,
        );
        return { state: { ...state, nodes: before.nodes }, effects };
      },
    },
  ],
  [
    'I6',
    'who has gone is written to',
    {
      stepRoom: roomThat((effects, before) =>
        effects.map((effect) =>
          effect.type === 'send' ? { ...effect, to: before.members.map((m) => m.member) } : effect,
        ),
      ),
    },
  ],
  [
    'I7',
    'who returns is told nothing of what it missed',
    {
      stepRoom: roomThat((effects, _before, _after, type) =>
        effects.filter((effect) => type !== 'return' || !isMessage(effect, 'prepare', 'sync', 'go', 'pause', 'ended')),
      ),
    },
  ],
  [
    'I7',
    'who returns does not repeat what it reported',
    {
      advanceMember: (state, event) => {
        const { state: after, effects } = advanceMember(state, event);
        return { state: after, effects: effects.filter(({ type }) => event.type !== 'admitted' || type !== 'send') };
      },
    },
  ],
  [
    'I7',
    'nobody waits for those who are away to be gone',
    {
      stepRoom: roomThat((effects) =>
        effects.filter((effect) => effect.type !== 'setTimer' || !effect.key.startsWith('away')),
      ),
    },
  ],
  [
    'I9',
    'a run that the host holds goes on when somebody comes',
    {
      stepRoom: (before, event) => {
        if (event.type !== 'ready') return stepRoom(before, event);
        const { state, effects } = stepRoom({ ...before, isHeld: false }, event);
        return { state: { ...state, isHeld: before.isHeld }, effects };
      },
    },
  ],
  [
    'I8',
    'a fixed world is taken for an elastic one',
    {
      stepRoom: (before, event) => {
        const { state, effects } = stepRoom({ ...before, nodes: before.nodes ?? { min: 1, max: 3 } }, event);
        return { state: { ...state, nodes: before.nodes }, effects };
      },
    },
  ],
];

describe('the schedules find', () => {
  test.each(MUTANTS)('that %s is broken where %s', { timeout: 120_000 }, (law, _, mutant) => {
    expect(find(law, mutant)).not.toBeNull();
  });
});

test('a failing schedule is shortened to what it takes to fail', () => {
  const { outcome, parts } = find('I4', { needsAll: false })!;
  const short = shrink(outcome, parts);
  expect(short.violation?.law).toBe('I4');
  expect(short.actions.length).toBeLessThan(outcome.actions.length);
  expect(playActions(short, short.actions, parts).violation?.message).toBe(short.violation?.message);
});
