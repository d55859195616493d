/**
 * Tests that every invariant can be broken. A fault is put into the room, the members or recovery,
 * and the schedules must find it.
 */
import { describe, expect, test } from 'vitest';
import { step as stepRoom, type RoomEffect, type RoomState } from '../../signaling/room/index.ts';
import { nextMembership as advanceMember } from '../../src/engine/membership/membership.ts';
import type { SampleAssigner, StepAssignment } from '../../src/engine/training/data/sampleAssigner.ts';
import { electState } from '../../src/parallel/recovery/stateElection.ts';
import { takeOver } from './replica.ts';
import { playRecovery, type Faults } from './recovery/schedule.ts';
import type { DataKind } from './recovery/invariants.ts';
import type { Arriving, Tab, TabReplica } from './recovery/tab.ts';
import { playActions, playSeed, shrink, type Outcome } from './schedule.ts';
import { REAL_PARTS, type Parts } from './world/model.ts';

/** Maximum number of schedules until a fault is found. Most faults are found within a hundred. */
const ENOUGH = 20_000;

/** Returns the first schedule that breaks `invariant`. */
function find(invariant: string, mutant: Partial<Parts>): { outcome: Outcome; parts: Parts } | null {
  const parts = { ...REAL_PARTS, ...mutant };
  for (let seed = 0; seed < ENOUGH; seed++) {
    const outcome = playSeed(seed, parts);
    if (outcome.violation?.invariant === invariant) return { outcome, parts };
  }
  return null;
}

/** Returns the room's function with changed effects. */
const roomThat =
  (
    change: (effects: RoomEffect[], before: RoomState, after: RoomState, type: string) => RoomEffect[],
  ): Parts['stepRoom'] =>
  (before, event) => {
    const { state, effects } = stepRoom(before, event);
    return { state, effects: change([...effects], before, state, event.type) };
  };
/** Returns the room's function, but with some values of the state changed while it runs. */
const roomAs =
  (change: Partial<RoomState>): Parts['stepRoom'] =>
  (before, event) => {
    const { state, effects } = stepRoom({ ...before, ...change }, event);
    const own = Object.fromEntries(Object.keys(change).map((key) => [key, before[key as keyof RoomState]]));
    return { state: { ...state, ...own }, effects };
  };
const isMessage = (effect: RoomEffect, ...types: string[]): boolean =>
  effect.type === 'send' && types.includes(effect.message.type);

/** Fault: samples without a retained gradient are assigned to no rank. */
const assignsOnlyRetained = (assigner: SampleAssigner): SampleAssigner => {
  const reassign = assigner.reassign.bind(assigner);
  assigner.reassign = (position, held, retainedGradients) => {
    const assignment = reassign(position, held, retainedGradients);
    const isHeld = retainedGradients.some((retained) => retained !== null);
    return isHeld ? { ...assignment, indices: assignment.indices.slice(0, held.heldSamples) } : assignment;
  };
  return assigner;
};
/** Fault: a rank ignores the retained gradients of other ranks. */
const regardsOnlyOwn = (assigner: SampleAssigner): SampleAssigner => {
  const reassign = assigner.reassign.bind(assigner);
  assigner.reassign = (position, held, retainedGradients) => {
    const own = JSON.stringify(assigner.retainedGradient(held));
    return reassign(
      position,
      held,
      retainedGradients.map((retained) => (JSON.stringify(retained) === own ? retained : null)),
    );
  };
  return assigner;
};
const withoutParts = ({ window, ...assignment }: StepAssignment): StepAssignment => {
  const { epoch, offset } = window.next;
  return { ...assignment, window: { ...window, next: { epoch, offset } } };
};
/** Fault: in federated data, the next position lacks the parts into which the epoch is divided. */
const assignsWithoutParts = (assigner: SampleAssigner): SampleAssigner => {
  const [assign, reassign] = [assigner.assign.bind(assigner), assigner.reassign.bind(assigner)];
  assigner.assign = (...given) => withoutParts(assign(...given));
  assigner.reassign = (...given) => withoutParts(reassign(...given));
  return assigner;
};
const gradientsOfAll: Parts['currentGradients'] = (arrivals) => arrivals.map(({ note }) => note.retained);

const MUTANTS: [invariant: string, fault: string, mutant: Partial<Parts>][] = [
  [
    'I1',
    'a returning member receives a generation with another order of ranks',
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
  [
    'I1',
    'a restored room numbers generations on from those that members reported',
    { stepRoom: roomAs({ numbersFrom: 0 }) },
  ],
  [
    'I2',
    'all ranks train as soon as the first rank has compared states',
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
    'a rank that loads a state keeps the gradients of its old state',
    {
      takeOver: (replica, rank, all, comparison, run) => {
        const { heldSamples, base } = replica;
        takeOver(replica, rank, all, comparison, run);
        Object.assign(replica, { heldSamples, base });
      },
      currentGradients: gradientsOfAll,
    },
  ],
  [
    'I4',
    'a repeated step is treated as a step of the generation that took it first',
    {
      electState: (states) => electState(states.map((one) => ({ ...one, appliedIn: -one.appliedIn }))),
    },
  ],
  [
    'I4',
    'the state with the fewest steps is elected',
    {
      electState: (states) => electState(states.map((one) => ({ ...one, step: -one.step }))),
    },
  ],
  ['I4', 'samples without a retained gradient are assigned to no rank', { assigner: assignsOnlyRetained }],
  ['I4', 'a rank ignores the retained gradients of other ranks', { assigner: regardsOnlyOwn }],
  ['I4', 'a step is applied with only the gradients that have arrived', { needsAll: false }],
  [
    'I5',
    'the room accepts any number of ranks',
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
    'the room sends a message to a member that has left',
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
    'a returning member does not receive the messages that it missed',
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
    'a returning member does not repeat its reports',
    {
      advanceMember: (state, event) => {
        const { state: after, effects } = advanceMember(state, event);
        return { state: after, effects: effects.filter(({ type }) => event.type !== 'admitted' || type !== 'send') };
      },
    },
  ],
  [
    'I7',
    'disconnected members are never removed',
    {
      stepRoom: roomThat((effects) =>
        effects.filter((effect) => effect.type !== 'setTimer' || !effect.key.startsWith('away')),
      ),
    },
  ],
  [
    'I9',
    'a run that the host paused continues when a member joins',
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
    'a report of a single rank suspends the reported rank',
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
    'a fixed world is treated as an elastic one',
    {
      stepRoom: (before, event) => {
        const { state, effects } = stepRoom({ ...before, nodes: before.nodes ?? { min: 1, max: 3 } }, event);
        return { state: { ...state, nodes: before.nodes }, effects };
      },
    },
  ],
];

/** Returns a change of a tab's replica that replaces some of its methods. */
const replicaThat =
  (change: (replica: TabReplica, tab: Tab) => Partial<TabReplica>): NonNullable<Faults['replica']> =>
  (replica, tab) => ({ ...replica, ...change(replica, tab) });
const statesThat =
  (change: (reconnectState: Arriving, all: readonly Arriving[]) => Partial<Arriving>): NonNullable<Faults['states']> =>
  (all) =>
    all.map((reconnectState) => ({ ...reconnectState, ...change(reconnectState, all) }));

const RECOVERY_MUTANTS: [kind: DataKind, fault: string, faults: Faults][] = [
  ...(['replicated', 'federated'] as const).map((kind): [DataKind, string, Faults] => [
    kind,
    'a rank that is one step behind receives the missing step even if its state differs',
    {
      states: statesThat(({ step, appliedIn }, all) => {
        const furthest = all.filter((one) => one.step === step + 1);
        return { appliedIn: furthest[0]?.previousAppliedIn ?? appliedIn };
      }),
    },
  ]),
  [
    'federated',
    'a repeated step is treated as a step of the generation that took it first',
    {
      states: statesThat(({ appliedIn, previousAppliedIn }) => ({
        appliedIn: -appliedIn,
        previousAppliedIn: -previousAppliedIn,
      })),
    },
  ],
  ['replicated', 'the state with the fewest steps is elected', { states: statesThat(({ step }) => ({ step: -step })) }],
  [
    'federated',
    'a rank without a state takes part in the election as if it had most steps',
    { states: statesThat(({ isFresh, step }) => ({ isFresh: false, step: isFresh ? 1000 : step })) },
  ],
  [
    'federated',
    'a rank that loads a state offers the gradient of the last step of its old state',
    {
      replica: replicaThat((real, tab) => ({
        load: (state, progress) => {
          const { keepsGradient } = tab;
          real.load(state, progress);
          tab.keepsGradient = keepsGradient;
        },
      })),
    },
  ],
  [
    'replicated',
    'a rank offers the gradient of the step before its last step',
    { stepped: (tab) => (tab.kept = tab.history.before!.sum ?? tab.kept) },
  ],
  [
    'replicated',
    'a rank that loads a state keeps the gradients of its old state',
    {
      replica: replicaThat((real, tab) => {
        const keepingHeld = (act: () => void): void => {
          const { held } = tab;
          act();
          tab.held = held;
        };
        return {
          load: (state, progress) => keepingHeld(() => real.load(state, progress)),
          repeat: {
            ...real.repeat!,
            catchUp: (sum, head) => keepingHeld(() => real.repeat!.catchUp(sum, head)),
          },
        };
      }),
      currentGradients: gradientsOfAll,
    },
  ],
  ['replicated', 'samples without a retained gradient are assigned to no rank', { assigner: assignsOnlyRetained }],
  ['replicated', 'a rank ignores the retained gradients of other ranks', { assigner: regardsOnlyOwn }],
  [
    'federated',
    'a sample assigner still uses the ranks of its first generation',
    { assigner: (assigner) => Object.assign(assigner, { enter: () => {} }) },
  ],
  ['federated', 'the division of an epoch into parts is lost after each step', { assigner: assignsWithoutParts }],
  [
    'replicated',
    'a step is applied without the contribution of the last rank',
    { contributions: (parts) => parts.slice(0, -1) },
  ],
  [
    'federated',
    'a step is applied without the contribution of the last rank',
    { contributions: (parts) => parts.slice(0, -1) },
  ],
  [
    'replicated',
    'a rank whose GPU was set up again has lost the generation of its last step',
    { reloaded: ({ progress }) => Object.assign(progress, { appliedIn: 0, previousAppliedIn: 0 }) },
  ],
];

describe('recovery schedules detect a planted fault', () => {
  test.each(RECOVERY_MUTANTS)('in runs on %s data: %s', { timeout: 120_000 }, async (kind, _, faults) => {
    const isBroken = async (seed: number): Promise<boolean> =>
      (await playRecovery(kind, seed, faults)).violation !== null;
    let seed = 0;
    while (seed < ENOUGH && !(await isBroken(seed))) seed++;
    expect(seed).toBeLessThan(ENOUGH);
  });
});

describe('membership schedules detect a planted fault', () => {
  test.each(MUTANTS)('that breaks invariant %s: %s', { timeout: 120_000 }, (invariant, _, mutant) => {
    expect(find(invariant, mutant)).not.toBeNull();
  });
});

test('a failing schedule is shortened to fewer actions with the same failure', () => {
  const { outcome, parts } = find('I4', { needsAll: false })!;
  const short = shrink(outcome, parts);
  expect(short.violation?.invariant).toBe('I4');
  expect(short.actions.length).toBeLessThan(outcome.actions.length);
  expect(playActions(short, short.actions, parts).violation?.message).toBe(short.violation?.message);
});
