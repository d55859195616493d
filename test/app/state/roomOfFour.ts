/** A room of four tabs for tests of the view: its members and events, and the view after them. */
import { initialTabView, reduceTabView, type TabView } from '../../../src/app/state/view.ts';
import type { LobbyView } from '../../../src/app/state/room.ts';
import type { EngineEvent, EventOf, RankState, RankStatus } from '../../../src/protocol/events.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { member } from '../events.ts';

export const MEMBERS = [member('Ada'), member('Grace'), member('Edsger'), member('Barbara')];
export const GENERATION: EngineEvent = {
  type: 'generation',
  generation: 1,
  run: 1,
  rank: 0,
  worldSize: 4,
  localRank: 0,
  localWorldSize: 4,
  members: MEMBERS,
  job: DEFAULT_JOB,
};

export function fold(...events: EngineEvent[]): TabView {
  return events.reduce(reduceTabView, initialTabView);
}

export function lobby(change: Partial<LobbyView>): LobbyView {
  return {
    phase: 'FORMING',
    hosts: [MEMBERS[0]!.member],
    members: MEMBERS,
    spectators: [],
    job: DEFAULT_JOB,
    startAt: null,
    nodes: { min: 1, max: 64 },
    isLocked: false,
    isPausedByHost: false,
    waitingFor: 0,
    ...change,
  };
}

export function state(name: RankState, change: Partial<RankStatus> = {}): EngineEvent {
  return { type: 'state', state: name, generation: 1, detail: '', isServerAway: false, connecting: [], ...change };
}

export function room(change: Partial<LobbyView>): EngineEvent {
  const { members, spectators, ...rest } = lobby(change);
  return { type: 'room', ...rest, members: [...members], spectators: [...spectators] };
}

export const GRACE: EventOf<'admitted'> = { type: 'admitted', member: 'member-grace', room: 'K7F3QX', hostKey: null };
