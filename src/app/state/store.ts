/**
 * The page's one store: the address, the engine, and the view that its events add up to. Events are
 * folded at once and published a few times a second on an animation frame, so drawing never lags
 * training, and a hidden tab draws nothing at all.
 */
import { computed, effect, signal, type ReadonlySignal } from '@preact/signals';
import { startEngine, type Engine } from '../../engine/page.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { LessonOrder } from '../../protocol/lesson.ts';
import type { ModelFormat } from '../../spec/modelFile.ts';
import { saveJson } from '../browser/download.ts';
import { pageHidden } from '../browser/env.ts';
import { forgetModelFile, takeModelFile } from '../modelFiles/keeping.ts';
import { takeAnswer } from '../inspection/answers.ts';
import { remembered } from '../browser/remembered.ts';
import { hostKeyOf, keepHostKey } from '../browser/hostKeys.ts';
import { simulatedRun } from '../../simulation/simulatedRun.ts';
import { messages } from '../locales/index.ts';
import { MAX_WORLD_SIZE } from '../../protocol/scalars.ts';
import { hiddenParts, numberIn, parseRoute, roomHash, viewSettings, withQuery, type Route } from './route.ts';
import { isSoftware, isUnderWay } from './derive.ts';
import { titleOf } from './title.ts';
import { initialView, reduce, withoutRun, type View } from './view.ts';

declare global {
  /** Installed by a launcher that drives this page: gets every engine event, undelayed. */
  // oxlint-disable-next-line no-var -- only `var` declares a property of globalThis
  var peergradReport: ((event: EngineEvent) => void) | undefined;
  /** Installed by a launcher whose tab is to go on from a file, or to begin with one: gives it. */
  // oxlint-disable-next-line no-var
  var peergradOrigin: (() => Promise<{ name: string; bytes: Uint8Array<ArrayBuffer> }>) | undefined;
  /** For the launcher: has this tab's engine tell the model as a file. */
  // oxlint-disable-next-line no-var
  var peergradExport: ((format: ModelFormat) => void) | undefined;
  /** Installed by a launcher that keeps the run's states: the run waits for each. */
  // oxlint-disable-next-line no-var
  var peergradHolds: boolean | undefined;
  /** For that launcher: the state after `step` is kept. */
  // oxlint-disable-next-line no-var
  var peergradRelease: ((step: number) => void) | undefined;
}

/** Least time between two redraws, milliseconds: digits that change faster cannot be read. */
const PUBLISH_MS = 200;
/** The same where the processor itself computes, and paints. */
const THRIFTY_PUBLISH_MS = 500;
/** The same for the title of a hidden tab. */
const RETITLE_MS = 1000;
/** Of a launcher's questions, none of which are this page's. */
const LAUNCHERS_ID = 0;
/** What a tab is called whose user was not asked. */
const NAMELESS = 'tab';

export const route = signal<Route>(parseRoute(location.hash));
const published = signal<View>(initialView);
export const view: ReadonlySignal<View> = published;
/** A create or join is under way and the room has not answered yet. */
export const entering = signal(false);

/** Whether what paints this page also trains: then it paints less. */
export const computesOnCpu = computed(() => isSoftware(view.value.device));

/** Whether somebody looks at a run that is on, and does not wait for anybody. */
export const isWatching = computed(() => {
  const { lobby } = view.value;
  return isUnderWay(view.value) && lobby?.phase !== 'PAUSED' && !pageHidden.value;
});

/** What the link that led here hides. */
export const hidden = computed(() => hiddenParts(route.value.query));

type Screen = Route['page'] | 'lobby' | 'run';

export const screen = computed<Screen>(() => {
  if (view.value.run !== null) return 'run';
  if (view.value.lobby !== null) return 'lobby';
  return route.value.page;
});

const storedName = remembered('peergrad.name');
export const name = signal(route.peek().name ?? storedName.get() ?? '');

let latest = initialView;
let engine: Engine | null = null;
/** Counts engines: what a stopped one still tells is about a room that was left. */
let session = 0;
/** The user wants the flight recording that the engine will tell. */
let saveRecording = false;
let frame = 0;
let waiting: ReturnType<typeof setTimeout> | null = null;
let lastPublished = -Infinity;
let retitling: ReturnType<typeof setTimeout> | null = null;

/**
 * @param resume id of the checkpoint that the room's first run goes on from; `origin`: a file that
 *   it goes on from, or begins with; `watches`: this tab never trains.
 */
export function createRoom(
  job: JobSpec,
  startAt: number | null,
  { isSpectator = false, ...from }: { resume?: string; origin?: File; isSpectator?: boolean } = {},
): void {
  enter({
    type: 'create',
    server: location.origin,
    name: ownName(),
    ...askedRank(),
    isSpectator,
    job,
    startAt,
    ...from,
  });
}

/** @param watches it never trains: without a GPU, or links to others. */
export function joinRoom(room: string, isSpectator = false): void {
  join(room, { isSpectator });
}

/** Joins as the address has asked for, with what a launcher gives. */
export async function joinByItself(room: string): Promise<void> {
  const given = await globalThis.peergradOrigin?.();
  join(room, given === undefined ? {} : { origin: new File([given.bytes], given.name) });
}

function join(room: string, options: { isSpectator?: boolean; origin?: File }): void {
  const hostKey = hostKeyOf(room);
  const key = hostKey === undefined ? {} : { hostKey };
  enter({ type: 'join', server: location.origin, name: ownName(), ...askedRank(), room, ...key, ...options });
}

function ownName(): string {
  return name.peek().trim() || NAMELESS;
}

/** The rank that the address asks for. */
function askedRank(): { rank?: number } {
  const { rank } = route.peek();
  return rank === null ? {} : { rank };
}

/** Host, before a run. */
export function configure(job: JobSpec): void {
  send({ type: 'configure', job });
}

/** Host: from the lobby, or once more after a run. */
export function start(): void {
  send({ type: 'start' });
}

/** Host: the run waits between two steps. */
export function pauseRun(): void {
  send({ type: 'pause' });
}

/** Host: a run that was paused goes on, with whoever is there. */
export function resumeRun(): void {
  send({ type: 'resume' });
}

/** Host: ends the run for all. */
export function stopRun(): void {
  send({ type: 'stop' });
}

/** Host: sends a member out of the room. */
export function removeMember(member: string): void {
  send({ type: 'remove', member });
}

/** Host: whether others may still join. */
export function lockRoom(isLocked: boolean): void {
  send({ type: 'lock', isLocked });
}

/** In a lesson: what this tab's user wants of it. */
export function lessonOrder(order: LessonOrder): void {
  send({ type: 'lesson', order });
}

/** Between two simulated steps, milliseconds: slow enough to be looked at. */
const SIMULATED_STEP_MS = 400;

/** Shows a run that is not there, as the address says; it goes on while the page is looked at. */
export function simulate(): void {
  const { query } = route.peek();
  const ranks = numberIn(query, 'ranks', [2, 32, MAX_WORLD_SIZE]);
  const { beginning, next } = simulatedRun(
    ranks,
    numberIn(query, 'seed', [0, 1, 2 ** 31]),
    messages.peek().run.simulated(ranks),
  );
  stop();
  const mine = session;
  update(beginning.reduce(reduce, initialView));
  const timer = setInterval(() => {
    if (session !== mine) return clearInterval(timer);
    if (pageHidden.peek()) return;
    latest = next().reduce(reduce, latest);
    publishSoon();
  }, SIMULATED_STEP_MS);
}

export function giveFiles(files: File[]): void {
  send({ type: 'files', files });
}

/**
 * Asks this tab's model what an image shows, what it has learned, or to write: learned/answers.ts
 * has the answer then; or for itself as a file, which keep/keeping.ts takes.
 */
export function ask(question: Extract<EngineCommand, { type: 'predict' | 'examine' | 'write' | 'export' }>): void {
  send(question);
}

/** Saves what the flight recorder holds: now, or when the engine failed for good. */
export function downloadRecording(): void {
  saveRecording = true;
  if (engine === null) takeRecording(latest.recording);
  else send({ type: 'recording' });
}

function takeRecording(recording: FlightRecording | null): void {
  if (saveRecording && recording !== null) saveJson(`peergrad-flight-rank-${recording.rank}.json`, recording);
  saveRecording = false;
}

/** Out of the room and back to the front page. */
export function leave(): void {
  send({ type: 'leave' });
  stop();
  update(initialView);
  location.hash = '';
}

/** From a run's end, or its failure, to the lobby; to the join page when the connection is lost. */
export function closeRun(): void {
  if (latest.member === null) stop();
  update(latest.member === null ? initialView : withoutRun(latest));
}

export function dismissFailure(): void {
  update({ ...latest, failure: null });
}

/** Keeps the document's title in step. */
export function followTitle(): void {
  effect(() => {
    document.title = titleOf(view.value, view.value.room ?? route.value.room, pageHidden.value);
  });
}

/** Tells the engine whether this page is hidden, for the others to know. */
export function followVisibility(): void {
  effect(() => send({ type: 'visibility', isHidden: pageHidden.value }));
}

/**
 * A page that comes back by the browser's button, as it was, has had its engine stopped: it starts
 * anew.
 */
export function reloadWhenRestored(): void {
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted && engine !== null) location.reload();
  });
}

/** Follows the address bar. Another room's link leaves this room. */
export function followAddress(): void {
  addEventListener('hashchange', () => {
    const next = parseRoute(location.hash);
    const isElsewhere = latest.room === null ? latest.run !== null : next.room !== latest.room;
    if (isElsewhere && next.page !== 'simulated') {
      stop();
      update(initialView);
    }
    if (next.name !== null) name.value = next.name;
    route.value = next;
    if (next.page === 'simulated') simulate();
  });
}

function enter(command: Extract<EngineCommand, { type: 'create' | 'join' }>): void {
  storedName.set(command.name);
  stop();
  update(initialView);
  entering.value = true;
  const mine = session;
  engine = startEngine((event) => {
    globalThis.peergradReport?.(event);
    if (session === mine) onevent(event);
  });
  if (globalThis.peergradHolds) send({ type: 'hold' });
  engine.send(command);
  send({ type: 'visibility', isHidden: pageHidden.peek() });
}

function onevent(event: EngineEvent): void {
  if (event.type === 'prediction' || event.type === 'learned' || event.type === 'written') return takeAnswer(event);
  if (event.type === 'exported') return takeModelFile(event);
  latest = reduce(latest, event);
  if (event.type === 'recording') takeRecording(event.recording);
  if (event.type === 'admitted') {
    showRoomInAddress(event.room);
    if (event.hostKey !== null) keepHostKey(event.room, event.hostKey);
  }
  if (event.type === 'hostKey') keepHostKey(event.room, event.hostKey);
  if (event.type === 'room' || event.type === 'generation' || event.type === 'failed') entering.value = false;
  if (event.type === 'failed' && event.fatal) stop();
  // Whoever clicks should not hit what has made way for another screen.
  const isElsewhere = (latest.run === null) !== (published.peek().run === null);
  if (isElsewhere) publish();
  else publishSoon();
}

/** Lets a launcher ask for the model. */
export function serveLauncher(): void {
  if (globalThis.peergradReport === undefined) return;
  globalThis.peergradExport = (format) => send({ type: 'export', id: LAUNCHERS_ID, format, which: 'best' });
  globalThis.peergradRelease = (step) => send({ type: 'release', step });
}

function send(command: EngineCommand): void {
  engine?.send(command);
}

function stop(): void {
  const old = engine;
  engine = null;
  session++;
  entering.value = false;
  saveRecording = false;
  forgetModelFile();
  old?.stop();
}

function update(next: View): void {
  latest = next;
  publish();
}

/** Keeps how a page is set up in its address, without a new entry in the browser's history. */
export function keepInAddress(changes: Readonly<Record<string, string | null>>): void {
  history.replaceState(null, '', withQuery(location.hash, changes));
  route.value = parseRoute(location.hash);
}

/** So that a reload, a bookmark or a copied address leads to the room. */
function showRoomInAddress(room: string): void {
  // A link that led here stays as it is: with `auto`, a reload joins again.
  if (route.peek().room === room) return;
  history.replaceState(null, '', withQuery(roomHash(room), viewSettings(route.peek().query)));
  route.value = parseRoute(location.hash);
}

function publishSoon(): void {
  // A hidden tab draws nothing, and has a title all the same.
  if (pageHidden.peek()) {
    retitling ??= setTimeout(() => {
      retitling = null;
      document.title = titleOf(latest, latest.room ?? route.peek().room, pageHidden.peek());
    }, RETITLE_MS);
  }
  if (frame !== 0 || waiting !== null) return;
  const pause = computesOnCpu.peek() ? THRIFTY_PUBLISH_MS : PUBLISH_MS;
  // Not from frame to frame: each that is asked for is painted, whether it differs or not.
  waiting = setTimeout(
    () => {
      waiting = null;
      frame = requestAnimationFrame(publish);
    },
    Math.max(0, lastPublished + pause - performance.now()),
  );
}

function publish(now: number = performance.now()): void {
  cancelAnimationFrame(frame);
  frame = 0;
  if (waiting !== null) clearTimeout(waiting);
  waiting = null;
  lastPublished = now;
  published.value = latest;
}
