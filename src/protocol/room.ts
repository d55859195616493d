/** Schemas of a room's members, their pulses, and settings, for control messages and events. */
import * as v from 'valibot';
import {
  MAX_AWAITED_RANKS,
  MAX_LINE_DELAY_MS,
  MAX_THREAD_TASK_LIMIT_MS,
  MAX_THREAD_TASK_NAME_LENGTH,
} from '../util/activity.ts';
import { JobSpec } from '../spec/job.ts';
import {
  countSchema,
  displayNameSchema,
  percentSchema,
  MAX_WORLD_SIZE,
  memberIdSchema,
  ordinalSchema,
  rankSchema,
  secretSchema,
  textSchema,
  worldSizeSchema,
} from './scalars.ts';

/**
 * How many ranks a run may have, like torchrun's `--nnodes MIN:MAX`. With fewer than `min` ranks,
 * the run pauses; members beyond `max` wait.
 */
export const NodeCountRange = v.pipe(
  v.strictObject({ min: worldSizeSchema, max: worldSizeSchema }),
  v.check(({ min, max }) => min <= max, 'min must not be above max'),
);
export type NodeCountRange = v.InferOutput<typeof NodeCountRange>;

/** The data that a newcomer may state in addition to its name. */
export const newcomerFieldSchemas = {
  name: displayNameSchema,
  /**
   * A random id that all tabs of a browser profile share. It determines a rank's local rank. Only
   * the server sees the id; other members see a number instead.
   */
  browser: v.optional(v.pipe(v.string(), v.regex(/^[\w-]{16,64}$/))),
  /** The requested rank; if missing, the member gets a rank that no other member has requested. */
  rank: v.optional(rankSchema),
  /** Whether the newcomer only watches: it never trains, and needs neither a device nor links. */
  isSpectator: v.optional(v.boolean()),
};
/**
 * The device of a tab: the backend of TensorFlow.js, and the adapter's name as the browser
 * reports it.
 */
export const ReportedDevice = v.strictObject({
  backend: v.picklist(['webgpu', 'webgl', 'wasm', 'cpu']),
  adapter: textSchema(200),
});
export type ReportedDevice = v.InferOutput<typeof ReportedDevice>;

export const RosterEntry = v.strictObject({
  member: memberIdSchema,
  name: displayNameSchema,
  /** `null` until the member is ready. */
  device: v.nullable(ReportedDevice),
  /**
   * Members with the same number are tabs of one browser. The number means nothing outside of this
   * room.
   */
  browser: countSchema,
  /** The requested rank; `null`: any. */
  rank: v.nullable(rankSchema),
  /**
   * Determines the colour and shape by which pages show the member. It stays the same while the
   * member is in the room, although its rank may change. Without it, the rank determines them.
   */
  mark: v.optional(countSchema),
  /**
   * Percent of the run's state that a newcomer has received while the others train. Missing if the
   * member does not receive a state.
   */
  received: v.optional(percentSchema),
});
export type RosterEntry = v.InferOutput<typeof RosterEntry>;

/** A member of the room that only watches. */
export const Spectator = v.strictObject({ member: memberIdSchema, name: displayNameSchema });
export type Spectator = v.InferOutput<typeof Spectator>;

/** Members in ring order. */
export const ringSchema = v.pipe(
  v.array(RosterEntry),
  v.minLength(1),
  v.maxLength(MAX_WORLD_SIZE),
  v.check((ranks) => new Set(ranks.map(({ member }) => member)).size === ranks.length, 'a member occurs twice'),
);

export const ROOM_PHASES = ['FORMING', 'LINKING', 'SYNCING', 'RUNNING', 'PAUSED'] as const;
export type RoomPhase = (typeof ROOM_PHASES)[number];

export const MAX_REMOVED_LISTED = 64;

/** The members that hosts have removed. If there are many, only the latest are listed. */
export const RemovedMembers = v.strictObject({
  members: v.pipe(v.array(memberIdSchema), v.maxLength(MAX_REMOVED_LISTED)),
  /**
   * The server's signature of this list. Without it, a member could falsely tell a restarted server
   * that another member was removed.
   */
  seal: secretSchema,
});

/** The settings of a room. A server that has restarted receives them from the members. */
export const RoomSettings = v.strictObject({
  job: JobSpec,
  /**
   * The run starts without the host once this many members are ready. The number is also the room's
   * world size. `null`: the host starts the run. Every start of a run sets it to `null`. After the
   * run has ended and all members that took part have left, it has its original value again.
   */
  startAt: v.nullable(worldSizeSchema),
  /**
   * Limits of the number of ranks of a run. `null`: the world is fixed, and the run ends when a
   * rank leaves.
   */
  nodes: v.nullable(NodeCountRange),
  isLocked: v.boolean(),
  /** The host has paused the run: the room is PAUSED until the host resumes it. */
  isPausedByHost: v.boolean(),
});
export type RoomSettings = v.InferOutput<typeof RoomSettings>;

/** The settings with which a room is opened. */
export const RoomOpening = v.pick(RoomSettings, ['job', 'startAt', 'nodes']);
export type RoomOpening = v.InferOutput<typeof RoomOpening>;

/** Returns only the settings from a room's state or from a message about the room. */
export function roomSettingsOf(room: Readonly<RoomSettings>): RoomSettings {
  const names = Object.keys(RoomSettings.entries) as (keyof RoomSettings)[];
  return Object.fromEntries(names.map((name) => [name, room[name]])) as RoomSettings;
}

const lateMs = v.pipe(countSchema, v.maxValue(MAX_LINE_DELAY_MS));

/** The report of a reconnecting member: the settings of the room, its run and its generation. */
export const ReconnectReport = v.strictObject({
  settings: v.strictObject({ ...RoomSettings.entries, removed: v.optional(RemovedMembers) }),
  /** The latest run that the member knows from `prepare`, `pause` or `room`; 0 if none is known. */
  run: ordinalSchema,
  /** Whether that run is still in progress, as far as the member knows. */
  isRunOn: v.boolean(),
  /** Whether ranks of that run have begun to train, as far as the member knows. */
  hasTrained: v.exactOptional(v.boolean()),
  /** The highest generation that the member knows from `prepare` or `room`; 0 if none is known. */
  generation: ordinalSchema,
  /**
   * The generation in which the member is, or `null`. `isSteady` means that the member trains in it
   * and does not need the server.
   */
  active: v.nullable(v.strictObject({ generation: ordinalSchema, ring: ringSchema, isSteady: v.boolean() })),
  /** See {@link Pulse}. */
  lateMs: v.exactOptional(lateMs),
});
export type ReconnectReport = v.InferOutput<typeof ReconnectReport>;

/** A heartbeat's report about the member's computing thread. */
export const Pulse = v.strictObject({
  /** The task in progress, such as `step 12`; empty if the thread has named no task. */
  task: v.pipe(v.string(), v.maxLength(MAX_THREAD_TASK_NAME_LENGTH)),
  /** A number that grows whenever the task makes progress. */
  progress: countSchema,
  /** Whether the computing thread does not answer. */
  isSilent: v.boolean(),
  /**
   * Milliseconds for which the thread has not answered. If it answers: milliseconds since its task
   * began, or since the task's latest progress.
   */
  ms: countSchema,
  /** If `ms` exceeds this limit, the thread counts as hanging, or its task counts as idle. */
  limitMs: v.pipe(countSchema, v.maxValue(MAX_THREAD_TASK_LIMIT_MS)),
  /** Members whose data the thread waits for, in ops that it has called. */
  awaits: v.optional(v.pipe(v.array(memberIdSchema), v.maxLength(MAX_AWAITED_RANKS))),
  /** The data that links are sending may delay the next pulses by up to this many milliseconds. */
  lateMs: v.optional(lateMs),
});
export type Pulse = v.InferOutput<typeof Pulse>;
