/**
 * Requests of members. A member reports that it is ready; a host configures, starts, pauses, stops,
 * locks and clears the room.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';
import { whyPlanCannotRun } from '../../src/spec/plan.ts';
import { isDataChosenInTabs, isElasticJob, type JobSpec } from '../../src/spec/job.ts';
import { previewInputsOf } from '../../src/spec/preview.ts';
import { nameFeeder, withoutFeed } from './feeds.ts';
import { beginRun, choicesOf, end, reform, seated, settle } from './generations.ts';
import { removeMember } from './members.ts';
import { sendPause } from './pauses.ts';
import { broadcastRoom } from './roomMessage.ts';
import {
  andThen,
  change,
  hostsOf,
  isRunOn,
  nodesOf,
  refuse,
  noEffects,
  unready,
  withEffects,
  withRemoved,
  type RoomEvent,
  type RoomState,
  type Step,
} from './state.ts';
import { suspendedOf } from './suspensions.ts';

export function ready(
  state: RoomState,
  { member, device, stateOfRun, catchUp }: Extract<RoomEvent, { type: 'ready' }>,
): Step {
  const before = state.members.find((m) => m.member === member)?.device;
  const known = { ...change(state, member, { stateOfRun }), feeds: withoutFeed(state, member) };
  const fed = catchUp && !before ? nameFeeder(known, member, catchUp) : null;
  if (fed !== null) return fed;
  const isKnown = before?.backend === device.backend && before.adapter === device.adapter;
  // Nothing has changed, so nothing is broadcast. A broadcast of the roster may be a hundred times
  // as long as the member's message.
  if (isKnown && state.hidden.get(member)?.stateOfRun === stateOfRun)
    return noEffects({ ...state, feeds: known.feeds });
  const members = known.members.map((m) => {
    if (m.member !== member) return m;
    const { received: _, ...rest } = m;
    return { ...rest, device };
  });
  return settle({ ...known, members });
}

/**
 * Runs `control` if `member` is a host, and refuses the request otherwise. `what` completes the
 * sentence "Only the host may ...".
 */
export function asHost(state: RoomState, member: string, what: string, control: () => Step): Step {
  return hostsOf(state).includes(member) ? control() : refuse(state, member, 'not-host', `Only the host may ${what}.`);
}

export function configure(state: RoomState, member: string, job: JobSpec): Step {
  if (isRunOn(state)) {
    return refuse(state, member, 'not-now', 'The job cannot change during a run. Wait until the run has ended.');
  }
  // A job with different data needs new `ready` messages, because each tab first loads the data.
  const isReadyStill = needsOf(job) === needsOf(state.job);
  const next = { ...state, job };
  return broadcastRoom(isReadyStill ? next : unready(next, () => true));
}

/**
 * Returns a text that describes the data that a job needs. If the texts of two jobs are equal, tabs
 * that are ready for one job are ready for the other. If each tab chooses its own files, the text
 * includes the job's demands on these files.
 */
function needsOf(job: JobSpec): string {
  const { kind } = job.data;
  return isDataChosenInTabs(job.data) ? `${kind} ${previewInputsOf(job)}` : kind;
}

export function start(state: RoomState, member: string): Step {
  // The run has begun already: the host clicked twice, or the run started by itself (`startAt`)
  // just before the click arrived.
  if (isRunOn(state)) return noEffects(state);
  if (state.isRestoring) {
    const message =
      'The server has just restarted, and other tabs may still be training. Start the run in a few seconds.';
    return refuse(state, member, 'not-now', message);
  }
  if (state.members.find((m) => m.member === member)?.device === null) {
    return refuse(state, member, 'not-now', 'This tab is still warming up. Start the run when it is ready.');
  }
  const rings = choicesOf(state).map((choice) => seated(state, choice));
  const ring = rings.find((one) => whyNotReady(state, one) === null);
  if (ring !== undefined) return beginRun(state, ring);
  const sentences = [whyNotReady(state, rings.at(-1)!), ...suspendedOf(state)];
  return refuse(state, member, 'not-now', sentences.join(' '));
}

/**
 * Returns a sentence that explains why these members cannot form a world, or `null` if they can.
 */
function whyNotReady({ hidden, nodes, job }: RoomState, present: readonly RosterEntry[]): string | null {
  if (present.length === 0) return 'No member is ready to train. Wait until a member is ready.';
  const why = whyPlanCannotRun(job, present.length);
  if (why !== null) return `The job's algorithm cannot run: ${why}. Choose the ring, or wait for more members.`;
  const are = present.length === 1 ? 'only 1 member is' : `${present.length} members are`;
  if (nodes !== null && isElasticJob(job) && present.length < nodes.min) {
    return `This room needs ${nodes.min} members, and ${are} ready. Wait for more.`;
  }
  for (const { member, name, rank } of present) {
    const counted = hidden.get(member)?.worldSize ?? present.length;
    if (counted !== present.length)
      return `${name} expects a world size of ${counted}, and ${are} ready. Start the run with a world size of ${counted}.`;
    if (rank !== null && rank >= present.length) {
      return `${name} requested rank ${rank}, and ${are} ready. Start the run when ${rank + 1} members are ready.`;
    }
  }
  return null;
}

export function stop(state: RoomState): Step {
  return isRunOn(state) ? end(state, 'stopped', 'The host has stopped the run.') : noEffects(state);
}

/** Pauses the run. This ends the generation; ranks keep their gradients of the current step. */
export function pauseRun(state: RoomState, member: string): Step {
  // The host clicked twice: the run is paused already.
  if (!isRunOn(state) || state.isPausedByHost) return noEffects(state);
  if (nodesOf(state) === null) {
    return refuse(state, member, 'not-now', 'A run with a fixed world cannot be paused. Stop it instead.');
  }
  if (state.isRestoring) {
    const message =
      'The server has just restarted and waits for the ranks to reconnect. Pause the run in a few seconds.';
    return refuse(state, member, 'not-now', message);
  }
  return repeatPause(state, reform({ ...state, isPausedByHost: true }));
}

export function resume(state: RoomState): Step {
  return state.isPausedByHost ? repeatPause(state, settle({ ...state, isPausedByHost: false })) : noEffects(state);
}

/**
 * Sends `pause` again if the room was already paused before `step`: the step has changed the reason
 * for the pause.
 */
function repeatPause({ phase }: RoomState, step: Step): Step {
  return phase === 'PAUSED' ? andThen(step, sendPause) : step;
}

export function remove(state: RoomState, member: string, whom: string): Step {
  if (whom === member || !state.hidden.has(whom)) return noEffects(state);
  return withEffects(removeMember({ ...state, removed: withRemoved(state.removed, whom) }, whom, 'removed'), {
    type: 'expel',
    member: whom,
    code: 'removed',
    message: 'The host has removed this tab from the room.',
  });
}

export function lock(state: RoomState, isLocked: boolean): Step {
  return broadcastRoom({ ...state, isLocked });
}
