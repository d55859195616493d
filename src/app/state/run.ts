/** State of a run as the page shows it: its generation, its progress, and the reports of ranks. */
import type { RosterEntry } from '../../protocol/room.ts';
import type { EventOf } from '../../protocol/events.ts';
import type { JobSpec } from '../../spec/job.ts';
import { initialRunProgressView, type RunProgressView } from './runProgress.ts';
import { carryOverStatistics, initialRunTelemetryView, type RunTelemetryView } from './runTelemetry.ts';

/** A change of the world: ranks left, joined, or both. */
export interface WorldChange {
  /** The latest step before the change of the world, and the time of this step. */
  step: number;
  at: number;
  /** World sizes. */
  from: number;
  to: number;
  /**
   * Names of members. `returned` has members who have been in the run before; `joined` has the
   * others.
   */
  joined: readonly string[];
  returned: readonly string[];
  left: readonly string[];
}

export type LessonView = Omit<EventOf<'lesson'>, 'type'>;

export interface RunView extends RunProgressView, RunTelemetryView {
  number: number;
  generation: number;
  rank: number;
  worldSize: number;
  members: readonly RosterEntry[];
  /** Pairs of ranks that are no longer neighbours, because the link between them was slow. */
  separated: readonly (readonly [number, number])[];
  job: JobSpec;
  /** Changes between generations, newest last. */
  changes: readonly WorldChange[];
  /** Ids of the members that take part or have taken part in the run. */
  met: readonly string[];
  lesson: LessonView | null;
}

/** The number of changes that are stored. A chart with more lines would be hard to read. */
const MAX_CHANGES = 50;
/** The largest number of ids in `met`. If there are more, the earliest are dropped. */
const MAX_MET = 1000;

/** Returns the run after a generation has begun: either `previous` with new ranks, or a new run. */
export function runViewAtGeneration(previous: RunView | null, event: EventOf<'generation'>): RunView {
  const { generation, run: number, rank, worldSize, members, separated = [], job } = event;
  const past = previous?.number === number ? previous : null;
  return {
    ...(past ?? initialRunProgressView),
    ...initialRunTelemetryView,
    statistics: past === null ? null : carryOverStatistics(past, members),
    number,
    generation,
    rank,
    worldSize,
    members,
    separated,
    job,
    recent: [],
    result: null,
    changes: past === null ? [] : changesWith(past, members),
    met: [...new Set([...(past?.met ?? []), ...members.map((one) => one.member)])].slice(-MAX_MET),
    lesson: past?.lesson ?? null,
  };
}

function changesWith(past: RunView, members: readonly RosterEntry[]): readonly WorldChange[] {
  const { changes, last } = past;
  const before = new Set(past.members.map((one) => one.member));
  const after = new Set(members.map((one) => one.member));
  const met = new Set(past.met);
  const arrivals = members.filter((one) => !before.has(one.member));
  const left = past.members.filter((one) => !after.has(one.member));
  if (last === null || (arrivals.length === 0 && left.length === 0)) return changes;
  const change = {
    step: last.step,
    at: last.at,
    from: past.members.length,
    to: members.length,
    joined: arrivals.filter((one) => !met.has(one.member)).map((one) => one.name),
    returned: arrivals.filter((one) => met.has(one.member)).map((one) => one.name),
    left: left.map((one) => one.name),
  };
  return [...changes, change].slice(-MAX_CHANGES);
}
