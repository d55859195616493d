/**
 * What the screen knows: a fold over the engine's events, and nothing else. Pure, so that a
 * recorded list of events is a recorded screen, and bounded, so that a run may last for days.
 */
import type { Confusion } from '../../protocol/confusion.ts';
import type { Device, RosterEntry } from '../../protocol/room.ts';
import type { BucketChoice, CodecChoice, RunResult } from '../../protocol/runResult.ts';
import type { EngineEvent, RankState, RankStatus, RankTelemetry, WarmupStage } from '../../protocol/events.ts';
import type { LinkRoute, RankStatistics } from '../../protocol/runEvents.ts';
import type { RecordedTrace, StepLane } from '../../protocol/stepTrace.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { JobSpec } from '../../spec/job.ts';
import { metricsTold, type Metrics } from '../../spec/measures.ts';
import type { Preview } from '../../spec/preview.ts';
import { append, emptySeries, type Series } from './series.ts';

export type Lobby = Omit<Extract<EngineEvent, { type: 'room' }>, 'type'>;

export interface LinkView {
  up: boolean;
  route: LinkRoute;
  roundTripMs: number | null;
}

export type StepView = Omit<Extract<EngineEvent, { type: 'step' }>, 'type'>;

export interface Evaluation {
  step: number;
  at: number;
  loss: number;
  /** What was told beside it, the accuracy too; at least one. */
  metrics: Metrics;
  samples: number;
}

export type Sample = Omit<Extract<EngineEvent, { type: 'sample' }>, 'type'>;

/** Ranks came or went. */
export interface WorldChange {
  /** The last step before, and when it was. */
  step: number;
  at: number;
  /** World sizes. */
  from: number;
  to: number;
  /** Names, of those who were in the run before apart. */
  joined: readonly string[];
  returned: readonly string[];
  left: readonly string[];
}

export interface Run {
  /** The room's number for it. */
  number: number;
  generation: number;
  rank: number;
  worldSize: number;
  members: readonly RosterEntry[];
  /** Ranks that the order keeps apart, as the link between them was slow. */
  parted: readonly (readonly [number, number])[];
  job: JobSpec;
  /** This rank's own links, by the neighbour's rank. */
  links: Readonly<Record<number, LinkView>>;
  /** The job's files go round: bytes that each rank has. */
  spread: { total: number; held: readonly number[] } | null;
  losses: Series;
  /** The first step that this tab took part in, and the newest. */
  firstStep: number | null;
  last: StepView | null;
  /**
   * The last few steps in this generation, newest last: with other ranks, steps took another time.
   */
  recent: readonly StepView[];
  /** Between epochs, newest last. */
  changes: readonly WorldChange[];
  /** Where this tab has saved the run, newest last. */
  saves: readonly { step: number; at: number }[];
  /** Member ids of those who have been in the run. */
  met: readonly string[];
  /**
   * When the engine's clock of the run began, on the one that is shown: it begins anew with a new
   * GPU.
   */
  since: number;
  /** The codec that ranks chose in this generation, and why. */
  choice: CodecChoice | null;
  evaluations: readonly Evaluation[];
  /** Which class was taken for which when all held-out samples were last tested, after `step`. */
  confusion: (Confusion & { step: number }) | null;
  /** What a language model wrote, the newest last. */
  samples: readonly Sample[];
  /** The newest bucket whose whole way round the ring is known. */
  trace: RecordedTrace | null;
  statistics: { step: number; ranks: readonly RankStatistics[] } | null;
  /** The exchange before, for rates. */
  earlierStatistics: { step: number; ranks: readonly RankStatistics[] } | null;
  /** What ranks told of themselves with the statistics. */
  telemetry: { step: number; ranks: readonly RankTelemetry[] } | null;
  /** This rank's last steps, exactly. */
  ownLanes: readonly StepLane[];
  /**
   * By rank, the last steps of this generation as of `telemetry`, each on its rank's clock; this
   * rank's own are exact.
   */
  lanes: readonly (readonly StepLane[])[];
  hashes: { step: number; hashes: readonly string[]; agree: boolean } | null;
  result: RunResult | null;
  /** Where the run is a lesson: the last that was told of it. */
  lesson: LessonView | null;
}

export type LessonView = Omit<Extract<EngineEvent, { type: 'lesson' }>, 'type'>;

export interface ModelSizes {
  parameters: number;
  gradientBytes: number;
  bucketBytes: readonly number[];
  /** Where ranks chose how to cut them, why. */
  bucketChoice?: BucketChoice | undefined;
  totalSteps: number;
  trainSamples: number;
  testSamples: number;
}

export interface Failure {
  name: string;
  message: string;
  fatal: boolean;
}

export interface View {
  state: RankState;
  /** Membership generation that `state` is about. */
  generation: number;
  /** Neighbours that this tab connects to. */
  connecting: RankStatus['connecting'];
  /** The signaling server is lost, and looked for. */
  isServerAway: boolean;
  device: Device | null;
  /** Why this is not WebGPU, when it is not. */
  deviceNote: string | null;
  member: string | null;
  room: string | null;
  /** Shown to the server, it makes this tab a host of the room again. */
  hostKey: string | null;
  lobby: Lobby | null;
  model: ModelSizes | null;
  run: Run | null;
  /** What is being got ready, while it is. */
  warmup: WarmupStage | null;
  /** Files that this tab's user chose for all: bytes that are read. */
  reading: { bytes: number; total: number } | null;
  /**
   * Steps that the room's first run goes on after, where it goes on from a checkpoint of this
   * tab's.
   */
  goesOnAfter: number | null;
  /** The file whose weights the room's first run begins with, where it is this tab's. */
  beginsWith: string | null;
  /** Something to know that stops nothing. */
  note: string | null;
  failure: Failure | null;
  /**
   * What this tab's files hold, or what is wrong with them; both `null` while they are read.
   * `null`: none were given.
   */
  files: { preview: Preview | null; problem: string | null } | null;
  /** What the engine last told of its flight recorder. */
  recording: FlightRecording | null;
}

/** Steps kept for rates: enough to be steady, few enough to follow a change. */
export const RECENT_STEPS = 40;
/** Steps whose lanes are kept: what a timeline may go back. */
export const LANE_STEPS = 32;
/** Accuracy points kept; beyond it every second one goes. */
const MAX_EVALUATIONS = 1000;
/** Changes of the world kept: more lines than this in a chart say nothing. */
const MAX_CHANGES = 50;
/** Members remembered as having been there. */
const MAX_MET = 1000;

export const initialView: View = {
  state: 'OFFLINE',
  generation: 0,
  connecting: [],
  isServerAway: false,
  device: null,
  deviceNote: null,
  member: null,
  room: null,
  hostKey: null,
  lobby: null,
  model: null,
  run: null,
  warmup: null,
  reading: null,
  goesOnAfter: null,
  beginsWith: null,
  note: null,
  failure: null,
  files: null,
  recording: null,
};

export function reduce(view: View, event: EngineEvent): View {
  switch (event.type) {
    case 'state':
      return {
        ...view,
        state: event.state,
        generation: event.generation,
        connecting: event.connecting,
        isServerAway: event.isServerAway,
        warmup: event.state === 'RUNNING' ? null : view.warmup,
      };
    case 'device':
      return { ...view, device: event.device, deviceNote: event.note, warmup: null };
    case 'admitted':
      return { ...view, member: event.member, room: event.room, hostKey: event.hostKey, failure: null };
    case 'hostKey':
      return { ...view, hostKey: event.hostKey };
    case 'room': {
      const { type: _, ...lobby } = event;
      return { ...view, lobby };
    }
    case 'generation':
      return {
        ...view,
        run: runAtGeneration(view, event),
        failure: null,
        recording: null,
        goesOnAfter: null,
        // A run that looks for a rate leaves it to the next.
        beginsWith: event.job.schedule === 'range-test' ? view.beginsWith : null,
      };
    case 'model': {
      const { type: _, ...model } = event;
      return { ...view, model };
    }
    case 'warmup':
      return { ...view, warmup: event.stage };
    case 'failed': {
      const { name, message, fatal } = event;
      // Files that are read no further.
      const reading = view.reading?.bytes === view.reading?.total ? view.reading : null;
      const failed = { ...view, failure: { name, message, fatal }, warmup: null, reading };
      if (!fatal) return failed;
      return { ...failed, state: 'OFFLINE', connecting: [], isServerAway: false, member: null, lobby: null };
    }
    case 'link':
    case 'file-distribution':
    case 'step':
    case 'trace':
    case 'segments':
    case 'ranks':
    case 'telemetry':
    case 'hashes':
    case 'evaluation':
    case 'confusion':
    case 'codec':
    case 'saved':
    case 'sample':
    case 'finished':
    case 'lesson':
      // Before the first generation there is no run to tell about: a late event of a run that was
      // left.
      if (view.run === null) return view;
      return { ...view, run: reduceRun(view.run, event), warmup: event.type === 'step' ? null : view.warmup };
    case 'reading':
      return { ...view, reading: { bytes: event.bytes, total: event.total } };
    case 'begin':
    case 'testing':
    // Whoever asked has them from learned/answers.ts.
    case 'prediction':
    case 'learned':
    case 'written':
    // And from keep/keeping.ts.
    case 'exported':
      return view;
    case 'checkpoint':
      return { ...view, goesOnAfter: event.step };
    case 'weights':
      return { ...view, beginsWith: event.file };
    case 'note':
      return { ...view, note: event.message };
    case 'recording':
      return { ...view, recording: event.recording };
    case 'preview': {
      const { preview, problem } = event;
      return { ...view, files: { preview, problem } };
    }
    default:
      return event satisfies never;
  }
}

/** The page after a run is looked at no more. */
export function withoutRun(view: View): View {
  return { ...view, run: null, failure: null };
}

type RunEvent = Extract<
  EngineEvent,
  {
    type:
      | 'link'
      | 'file-distribution'
      | 'step'
      | 'trace'
      | 'segments'
      | 'ranks'
      | 'telemetry'
      | 'hashes'
      | 'evaluation'
      | 'confusion'
      | 'sample'
      | 'codec'
      | 'saved'
      | 'finished'
      | 'lesson';
  }
>;

function reduceRun(run: Run, event: RunEvent): Run {
  switch (event.type) {
    case 'link': {
      const { up, route, roundTripMs } = event;
      return { ...run, links: { ...run.links, [event.peerRank]: { up, route, roundTripMs } } };
    }
    case 'file-distribution': {
      const { total, held } = event;
      // Those of a generation that is over have nothing to tell of this one's ranks.
      return event.generation === run.generation ? { ...run, spread: { total, held } } : run;
    }
    case 'step': {
      const { step, epoch, offset, loss, samples, ms } = event;
      const { last } = run;
      const since = last !== null && run.since + event.at < last.at ? last.at : run.since;
      const taken = { step, epoch, offset, loss, samples, ms, at: since + event.at };
      const earlier = run.recent.filter((one) => one.step < step).slice(1 - RECENT_STEPS);
      return {
        ...run,
        since,
        firstStep: run.firstStep ?? step,
        losses: append(run.losses, { step, at: taken.at, value: loss }),
        last: taken,
        recent: [...earlier, taken],
        evaluations: run.evaluations.some((one) => one.step > step)
          ? run.evaluations.filter((one) => one.step <= step)
          : run.evaluations,
        confusion: run.confusion !== null && run.confusion.step > step ? null : run.confusion,
      };
    }
    case 'trace': {
      const { step, bucket, bytes, startedAt, hops } = event;
      const trace = { step, bucket, bytes, startedAt, hops };
      return isComplete(trace, run.worldSize) ? { ...run, trace } : run;
    }
    case 'segments':
      return { ...run, ownLanes: [...run.ownLanes, event.lane].slice(-LANE_STEPS) };
    case 'telemetry': {
      const { step, ranks } = event;
      const lanes = run.members.map((_, rank) =>
        rank === run.rank
          ? run.ownLanes
          : [...(run.lanes[rank] ?? []), ...(ranks[rank]?.lanes ?? [])].slice(-LANE_STEPS),
      );
      return { ...run, telemetry: { step, ranks }, lanes };
    }
    case 'saved': {
      const save = { step: event.step - 1, at: run.last?.at ?? 0 };
      return { ...run, saves: [...run.saves, save].slice(-MAX_CHANGES) };
    }
    case 'ranks':
      return { ...run, statistics: { step: event.step, ranks: event.ranks }, earlierStatistics: run.statistics };
    case 'hashes':
      return { ...run, hashes: { step: event.step, hashes: event.hashes, agree: event.agree } };
    case 'codec': {
      const { choice } = event;
      // By PowerSGD nothing goes round as it did until now.
      return { ...run, choice, trace: choice.codec === 'powersgd' ? null : run.trace };
    }
    case 'evaluation': {
      const { step, loss, samples } = event;
      const metrics = metricsTold(event);
      if (Object.keys(metrics).length === 0) return run;
      const at = run.last?.at ?? 0;
      const all = [...run.evaluations.filter((one) => one.step < step), { step, at, loss, metrics, samples }];
      const evaluations =
        all.length <= MAX_EVALUATIONS ? all : all.filter((_, i) => i % 2 === 1 || i === all.length - 1);
      return { ...run, evaluations };
    }
    case 'confusion': {
      const { type: _, ...confusion } = event;
      return { ...run, confusion };
    }
    case 'sample': {
      const { type: _, ...sample } = event;
      return { ...run, samples: [...run.samples.filter(({ steps }) => steps < sample.steps), sample] };
    }
    case 'finished':
      return { ...run, result: event.result };
    case 'lesson': {
      const { state, waitsFor, isMoving } = event;
      return { ...run, lesson: { state, waitsFor, isMoving } };
    }
    default:
      return event satisfies never;
  }
}

/** A new generation continues its run, with another world; or it begins a run. */
function runAtGeneration(view: View, event: Extract<EngineEvent, { type: 'generation' }>): Run {
  const { generation, run: number, rank, worldSize, members, parted = [], job } = event;
  const past = view.run?.number === number ? view.run : null;
  return {
    number,
    generation,
    rank,
    worldSize,
    members,
    parted,
    job,
    links: {},
    spread: null,
    losses: past?.losses ?? emptySeries,
    firstStep: past?.firstStep ?? null,
    last: past?.last ?? null,
    recent: [],
    changes: past === null ? [] : changesWith(past, members),
    saves: past?.saves ?? [],
    met: [...new Set([...(past?.met ?? []), ...members.map((one) => one.member)])].slice(-MAX_MET),
    since: past?.since ?? 0,
    evaluations: past?.evaluations ?? [],
    confusion: past?.confusion ?? null,
    samples: past?.samples ?? [],
    trace: null,
    statistics: null,
    earlierStatistics: null,
    telemetry: null,
    ownLanes: [],
    lanes: [],
    hashes: null,
    result: null,
    choice: null,
    lesson: past?.lesson ?? null,
  };
}

function changesWith(past: Run, members: readonly RosterEntry[]): readonly WorldChange[] {
  const { changes, last } = past;
  const before = new Set(past.members.map((one) => one.member));
  const after = new Set(members.map((one) => one.member));
  const met = new Set(past.met);
  const came = members.filter((one) => !before.has(one.member));
  const left = past.members.filter((one) => !after.has(one.member));
  const [from, to] = [past.members.length, members.length];
  if (last === null || (came.length === 0 && left.length === 0)) return changes;
  const change = {
    ...{ step: last.step, at: last.at, from, to },
    joined: came.filter((one) => !met.has(one.member)).map((one) => one.name),
    returned: came.filter((one) => met.has(one.member)).map((one) => one.name),
    left: left.map((one) => one.name),
  };
  return [...changes, change].slice(-MAX_CHANGES);
}

/**
 * Whether every ring step of the trace is known (long ones and small tensors may go another way
 * than round the ring).
 */
function isComplete(trace: RecordedTrace, n: number): boolean {
  const steps = 2 * (n - 1);
  return steps > 0 && trace.hops.length === steps && trace.hops.some((hop) => hop.receivedAt !== null);
}
