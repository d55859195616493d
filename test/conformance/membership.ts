/**
 * Cases of ranks that join and leave: the room's state machine and the election of a state behave
 * as users of torchft and Horovod expect.
 */
import { createRoom, step, type RoomEvent, type RoomState } from '../../signaling/room/index.ts';
import { electState, type PeerState } from '../../src/parallel/recovery/stateElection.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import type { ConformanceCase } from './case.ts';
import { expectEqual } from './expect.ts';
import { range } from './values.ts';

/** Returns what a rank reports after `steps` steps in the first generation. */
function after(steps: number): PeerState {
  return {
    isFresh: false,
    step: steps,
    appliedIn: 1,
    previousAppliedIn: steps > 0 ? 1 : 0,
    verdicts: [],
    digest: `state ${steps}`,
    keepsGradient: steps > 0,
  };
}

/** A room without a server, and the sizes of its worlds so far. */
class Rendezvous {
  readonly sizes: number[] = [];
  #state: RoomState;

  constructor(min: number, max: number) {
    this.#state = createRoom({ job: DEFAULT_JOB, startAt: null, nodes: { min, max }, capacity: 8 });
  }

  get phase(): string {
    return this.#state.phase;
  }

  get ring(): string[] {
    return this.#state.ring.map(({ member }) => member);
  }

  /**
   * Passes events to the room. If they start a new world, its ranks link, compare their states, and
   * train.
   */
  play(...events: RoomEvent[]): this {
    for (const event of events) this.#state = step(this.#state, event).state;
    if (this.#state.phase !== 'LINKING') return this;
    const { ring, generation } = this.#state;
    this.sizes.push(ring.length);
    for (const { member } of ring) this.#state = step(this.#state, { type: 'linked', member, generation }).state;
    for (const { member } of ring) {
      this.#state = step(this.#state, { type: 'synced', member, generation, step: 1, stateHash: 'same' }).state;
    }
    return this;
  }

  enter(...members: string[]): this {
    return this.play(
      ...members.flatMap((member): RoomEvent[] => [
        { type: 'join', member, name: member, holdsKey: false },
        { type: 'ready', member, device: { backend: 'cpu', adapter: '' }, stateOfRun: null },
      ]),
    );
  }
}

const start: RoomEvent = { type: 'start', member: 'a' };
/** With this event, waiting members become ranks. */
const grow: RoomEvent = { type: 'grow' };
const leave = (member: string): RoomEvent => ({ type: 'left', member, reason: 'left' });

export const MEMBERSHIP_CASES: readonly ConformanceCase[] = [
  {
    number: 55,
    title: 'the state election chooses the state with the most steps, and names the ranks that must receive this state',
    check: () => {
      const { step: steps, sources, late, gradientSource } = electState([0, 1, 0, 1, 0].map(after));
      // Ranks that are one step behind receive the gradient of that step from one rank. Ranks
      // further behind receive the state from all ranks that have it.
      const expected = { steps: 1, sources: [1, 3], late: [0, 2, 4], gradientSource: 1 };
      expectEqual({ steps, sources, late, gradientSource }, expected, 'steps 0, 1, 0, 1, 0');
      expectEqual(electState([0, 3, 0, 3, 0].map(after)).late, [], 'steps 0, 3, 0, 3, 0');
      const equal = electState(range(5).map(() => after(0)));
      expectEqual(equal.sources, range(5), 'all with the same state');
      const fresh = range(5).map((rank) => ({ ...after(0), isFresh: true, digest: `seed ${rank}` }));
      expectEqual(electState(fresh).sources, [0], 'all new: the state of rank 0');
    },
  },
  {
    number: 56,
    title: 'a third member waits while a world of at most two ranks is full, and replaces a rank that leaves',
    check: () => {
      const room = new Rendezvous(2, 2).enter('a', 'b', 'c').play(start);
      expectEqual([room.phase, room.ring], ['RUNNING', ['a', 'b']], 'three members, two places');
      room.play(leave('b'));
      expectEqual([room.phase, room.ring], ['RUNNING', ['a', 'c']], 'after one has left');
    },
  },
  {
    number: 58,
    title: 'a world grows and shrinks while it trains, pauses if it has too few ranks, and fails if all ranks leave',
    check: () => {
      const grown = new Rendezvous(1, 4).enter('a', 'b').play(start).enter('c', 'd').play(grow);
      expectEqual(grown.sizes, [2, 4], '2 ranks, then 2 more');
      grown.play(leave('c')).play(leave('d'));
      expectEqual([grown.phase, grown.ring, grown.sizes], ['RUNNING', ['a', 'b'], [2, 4, 3, 2]], '2 of them leave');

      const four = (): Rendezvous => new Rendezvous(1, 4).enter('a', 'b', 'c', 'd').play(start);
      const killed = four().play({ type: 'away', member: 'b' }, { type: 'missed', member: 'b' });
      expectEqual([killed.phase, killed.sizes], ['RUNNING', [4, 3]], '1 of 4 is killed');
      const none = four().play(...['a', 'b', 'c', 'd'].map(leave));
      expectEqual(none.phase, 'FORMING', 'all leave: the run has failed');
      const few = new Rendezvous(4, 4).enter('a', 'b', 'c', 'd').play(start).play(leave('d'));
      expectEqual([few.phase, few.sizes], ['PAUSED', [4]], '1 of at least 4 is lost');
      few.play(leave('a'), leave('b'), leave('c'), { type: 'abandoned' });
      expectEqual(few.phase, 'FORMING', 'no rank has the state of the run: the run has failed');
    },
  },
];
