/**
 * What members ask of a room: to be counted, and, if they are its hosts, to configure, start, stop,
 * lock and clear it.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';
import { isChosenByTabs, isElastic, type JobSpec } from '../../src/spec/job.ts';
import { demandsOf } from '../../src/spec/preview.ts';
import { beginRun, choicesOf, end, reform, seated, settle, tellPause } from './generations.ts';
import { left } from './members.ts';
import {
  andThen,
  change,
  hostsOf,
  isRunOn,
  nodesOf,
  refuse,
  stay,
  tellRoom,
  unready,
  withEffects,
  withRemoved,
  type RoomEvent,
  type RoomState,
  type Step,
} from './state.ts';
import { suspendedOf } from './suspensions.ts';

export function ready(state: RoomState, { member, device, holds }: Extract<RoomEvent, { type: 'ready' }>): Step {
  const before = state.members.find((m) => m.member === member)?.device;
  const known = change(state, member, { holds });
  const isKnown = before?.backend === device.backend && before.adapter === device.adapter;
  // What changes nothing is told to nobody: the roster that all would get is a hundred times as
  // long as this message.
  if (isKnown && state.hidden.get(member)?.holds === holds) return stay(state);
  const members = known.members.map((m) => (m.member === member ? { ...m, device } : m));
  return settle({ ...known, members });
}

/** `control`, if `member` is a host; `what` as in "Only the host may ...". */
export function asHost(state: RoomState, member: string, what: string, control: () => Step): Step {
  return hostsOf(state).includes(member) ? control() : refuse(state, member, 'not-host', `Only the host may ${what}.`);
}

export function configure(state: RoomState, member: string, job: JobSpec): Step {
  if (isRunOn(state)) {
    return refuse(state, member, 'not-now', 'The job cannot change during a run: wait until it has ended.');
  }
  // Other data has to be there first: each tab says `ready` again once it has what the new job
  // needs.
  const isReadyStill = needsOf(job) === needsOf(state.job);
  const next = { ...state, job };
  return tellRoom(isReadyStill ? next : unready(next, () => true));
}

/** What a tab has to have to be ready: its own files have to be fit for what is asked of them. */
function needsOf(job: JobSpec): string {
  const { kind } = job.data;
  return isChosenByTabs(job.data) ? `${kind} ${demandsOf(job)}` : kind;
}

export function start(state: RoomState, member: string): Step {
  // A second click, or one that crossed with `startAt`: what it asked for has happened.
  if (isRunOn(state)) return stay(state);
  if (state.isDoubtful) {
    const message = 'The server has just restarted, and others may still be training: start in a few seconds.';
    return refuse(state, member, 'not-now', message);
  }
  if (state.members.find((m) => m.member === member)?.device === null) {
    return refuse(state, member, 'not-now', 'This tab is still warming up: start when it says that it is ready.');
  }
  const rings = choicesOf(state).map((choice) => seated(state, choice));
  const ring = rings.find((one) => misfitOf(state, one) === null);
  if (ring !== undefined) return beginRun(state, ring);
  const sentences = [misfitOf(state, rings.at(-1)!), ...suspendedOf(state)];
  return refuse(state, member, 'not-now', sentences.join(' '));
}

/** Why these members cannot be a world of their own, in a sentence. */
function misfitOf({ hidden, nodes, job }: RoomState, present: readonly RosterEntry[]): string | null {
  if (present.length === 0) return 'Nobody is ready who trains: wait until somebody is.';
  const are = present.length === 1 ? 'only 1 member is' : `${present.length} members are`;
  if (nodes !== null && isElastic(job) && present.length < nodes.min) {
    return `This room needs ${nodes.min} members, and ${are} ready: wait for more.`;
  }
  for (const { member, name, rank } of present) {
    const counted = hidden.get(member)?.worldSize ?? present.length;
    if (counted !== present.length)
      return `${name} counts on a world of ${counted}, and ${are} ready: start with ${counted}.`;
    if (rank !== null && rank >= present.length) {
      return `${name} asked for rank ${rank}, and ${are} ready: start when ${rank + 1} are.`;
    }
  }
  return null;
}

export function stop(state: RoomState): Step {
  return isRunOn(state) ? end(state, 'stopped', 'The host has stopped the run.') : stay(state);
}

/** Ends the generation: what ranks have of the step that they are taking they keep, as ever. */
export function hold(state: RoomState, member: string): Step {
  // What a second click asks for has happened.
  if (!isRunOn(state) || state.isHeld) return stay(state);
  if (nodesOf(state) === null) {
    return refuse(state, member, 'not-now', 'A run whose ranks cannot come and go cannot pause: stop it instead.');
  }
  if (state.isDoubtful) {
    const message = 'The server has just restarted, and looks for those who train: pause in a few seconds.';
    return refuse(state, member, 'not-now', message);
  }
  return retell(state, reform({ ...state, isHeld: true }));
}

export function resume(state: RoomState): Step {
  return state.isHeld ? retell(state, settle({ ...state, isHeld: false })) : stay(state);
}

/** Where a pause goes on, it is one for another reason. */
function retell({ phase }: RoomState, step: Step): Step {
  return phase === 'PAUSED' ? andThen(step, tellPause) : step;
}

export function remove(state: RoomState, member: string, whom: string): Step {
  if (whom === member || !state.hidden.has(whom)) return stay(state);
  return withEffects(left({ ...state, removed: withRemoved(state.removed, whom) }, whom, 'removed'), {
    ...{ type: 'expel', member: whom, code: 'removed' },
    message: 'The host has sent this tab out of the room.',
  });
}

export function lock(state: RoomState, isLocked: boolean): Step {
  return tellRoom({ ...state, isLocked });
}
