/**
 * Each law is one that the schedules can see broken: with a fault put into the room, the members or
 * the run, they find it.
 */
import { describe, expect, test } from 'vitest';
import { step as stepRoom, type RoomEffect, type RoomState } from '../../signaling/room/index.ts';
import { advance as advanceMember } from '../../src/engine/membership/membership.ts';
import type { SampleAssigner, StepAssignment } from '../../src/engine/training/data/sampleAssigner.ts';
import { electState } from '../../src/parallel/recovery/stateElection.ts';
import { takeOver } from './replica.ts';
import { playRecovery, type Arriving, type DataKind, type Faults, type Tab, type TabReplica } from './recovery.ts';
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

/** What nobody holds of a window is dealt to nobody. */
const dealsNothingMore = (assigner: SampleAssigner): SampleAssigner => {
  const dealAgain = assigner.reassign.bind(assigner);
  assigner.reassign = (position, held, retainedGradients) => {
    const turn = dealAgain(position, held, retainedGradients);
    const isHeld = retainedGradients.some((retained) => retained !== null);
    return isHeld ? { ...turn, indices: turn.indices.slice(0, held.heldSamples) } : turn;
  };
  return assigner;
};
/** A rank counts what it holds, whatever others hold. */
const dealsForItself = (assigner: SampleAssigner): SampleAssigner => {
  const dealAgain = assigner.reassign.bind(assigner);
  assigner.reassign = (position, held, retainedGradients) => {
    const own = JSON.stringify(assigner.retainedGradient(held));
    return dealAgain(
      position,
      held,
      retainedGradients.map((retained) => (JSON.stringify(retained) === own ? retained : null)),
    );
  };
  return assigner;
};
const withoutParts = ({ window, ...turn }: StepAssignment): StepAssignment => {
  const { epoch, offset } = window.next;
  return { ...turn, window: { ...window, next: { epoch, offset } } };
};
/** Where a pass of federated data is to go on is told without the parts that it is divided into. */
const dealsWithoutParts = (assigner: SampleAssigner): SampleAssigner => {
  const [deal, dealAgain] = [assigner.assign.bind(assigner), assigner.reassign.bind(assigner)];
  assigner.assign = (position) => withoutParts(deal(position));
  assigner.reassign = (...given) => withoutParts(dealAgain(...given));
  return assigner;
};
const holdingsOfAll: Parts['holdingsThatCount'] = (arrivals) => arrivals.map(({ note }) => note.retained);

const MUTANTS: [law: string, fault: string, mutant: Partial<Parts>][] = [
  [
    'I1',
    'who returns hears of a generation with its ranks in another order',
    {
      stepRoom: roomThat((effects, _before, _after, type) =>
        effects.map((effect) =>
          type === 'reconnect' && effect.type === 'send' && effect.message.type === 'prepare'
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
      stepRoom: roomThat((effects, before, { generation, ring }, type) =>
        type === 'synced' && before.generation === generation
          ? [...effects, { type: 'send', to: ring.map((m) => m.member), message: { type: 'go', generation } }]
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
      takeOver: (replica, rank, all, comparison, run) => {
        if (replica.run !== run) takeOver(replica, rank, all, comparison, run);
      },
    },
  ],
  [
    'I3',
    'a rank that takes over a state keeps the gradients it computed in its own',
    {
      takeOver: (replica, rank, all, comparison, run) => {
        const { heldSamples, base } = replica;
        takeOver(replica, rank, all, comparison, run);
        Object.assign(replica, { heldSamples, base });
      },
      holdingsThatCount: holdingsOfAll,
    },
  ],
  [
    'I4',
    'a step that was taken twice counts as it was taken first',
    {
      electState: (states) => electState(states.map((one) => ({ ...one, appliedIn: -one.appliedIn }))),
    },
  ],
  [
    'I4',
    'the fewest steps win',
    {
      electState: (states) => electState(states.map((one) => ({ ...one, step: -one.step }))),
    },
  ],
  ['I4', 'what nobody holds of a window is dealt to nobody', { assigner: dealsNothingMore }],
  ['I4', 'a rank counts what it holds, whatever others hold', { assigner: dealsForItself }],
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
        effects.filter(
          (effect) => type !== 'reconnect' || !isMessage(effect, 'prepare', 'sync', 'go', 'pause', 'ended'),
        ),
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
        const { state, effects } = stepRoom({ ...before, isPausedByHost: false }, event);
        return { state: { ...state, isPausedByHost: before.isPausedByHost }, effects };
      },
    },
  ],
  [
    'I11',
    'one rank that misses a link has the other suspended',
    {
      stepRoom: (before, event) => {
        const { state, effects } = stepRoom(before, event);
        if (event.type !== 'broken' || before.generation !== event.generation) return { state, effects };
        const suspended = { type: 'suspended', run: state.run, generation: state.generation, message: '' } as const;
        return { state, effects: [...effects, { type: 'send', to: event.peers, message: suspended }] };
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

/** A tab's replica with something done to it. */
const replicaThat =
  (change: (replica: TabReplica, tab: Tab) => Partial<TabReplica>): NonNullable<Faults['replica']> =>
  (replica, tab) => ({ ...replica, ...change(replica, tab) });
const told =
  (change: (reconnectState: Arriving, all: readonly Arriving[]) => Partial<Arriving>): NonNullable<Faults['states']> =>
  (all) =>
    all.map((reconnectState) => ({ ...reconnectState, ...change(reconnectState, all) }));

const RECOVERY_MUTANTS: [kind: DataKind, fault: string, faults: Faults][] = [
  ...(['replicated', 'federated'] as const).map((kind): [DataKind, string, Faults] => [
    kind,
    'a rank a step behind is given that step, whatever state it has',
    {
      states: told(({ step, appliedIn }, all) => {
        const furthest = all.filter((one) => one.step === step + 1);
        return { appliedIn: furthest[0]?.previousAppliedIn ?? appliedIn };
      }),
    },
  ]),
  [
    'federated',
    'a step that was taken twice counts as it was taken first',
    {
      states: told(({ appliedIn, previousAppliedIn }) => ({
        appliedIn: -appliedIn,
        previousAppliedIn: -previousAppliedIn,
      })),
    },
  ],
  ['replicated', 'the fewest steps win', { states: told(({ step }) => ({ step: -step })) }],
  [
    'federated',
    'a rank without a state has a say, and says that it is ahead',
    { states: told(({ isFresh, step }) => ({ isFresh: false, step: isFresh ? 1000 : step })) },
  ],
  [
    'federated',
    'a rank that loads a state keeps the gradient of its last step for others',
    {
      replica: replicaThat((real, tab) => ({
        load: (state) => {
          const { keepsGradient } = tab;
          real.load(state);
          tab.keepsGradient = keepsGradient;
        },
      })),
    },
  ],
  [
    'replicated',
    'a rank keeps the gradient of the step before for others',
    { stepped: (tab) => (tab.kept = tab.history.before!.sum ?? tab.kept) },
  ],
  [
    'replicated',
    'a rank that takes over a state keeps the gradients it computed in its own',
    {
      replica: replicaThat((real, tab) => {
        const kept = (act: () => void): void => {
          const { held } = tab;
          act();
          tab.held = held;
        };
        return {
          load: (state) => kept(() => real.load(state)),
          catchUp: (sum, head) => kept(() => real.catchUp(sum, head)),
        };
      }),
      holdingsThatCount: holdingsOfAll,
    },
  ],
  ['replicated', 'what nobody holds of a window is dealt to nobody', { assigner: dealsNothingMore }],
  ['replicated', 'a rank counts what it holds, whatever others hold', { assigner: dealsForItself }],
  [
    'federated',
    'a assigner goes by the ranks of its first world',
    { assigner: (assigner) => Object.assign(assigner, { enter: () => {} }) },
  ],
  ['federated', 'how a pass is divided is forgotten from step to step', { assigner: dealsWithoutParts }],
  ['replicated', 'a step is applied without the last rank', { contributions: (parts) => parts.slice(0, -1) }],
  ['federated', 'a step is applied without the last rank', { contributions: (parts) => parts.slice(0, -1) }],
  [
    'replicated',
    'who has set its GPU up again has forgotten in which generation its last step was applied',
    { reloaded: ({ progress }) => Object.assign(progress, { appliedIn: 0, previousAppliedIn: 0 }) },
  ],
];

describe('the schedules of recovery find', () => {
  test.each(RECOVERY_MUTANTS)('with %s data that %s', { timeout: 120_000 }, async (kind, _, faults) => {
    const isBroken = async (seed: number): Promise<boolean> =>
      (await playRecovery(kind, seed, faults)).violation !== null;
    let seed = 0;
    while (seed < ENOUGH && !(await isBroken(seed))) seed++;
    expect(seed).toBeLessThan(ENOUGH);
  });
});

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
