/**
 * The engine of the page: what users and launchers do with it, and how its events change the view.
 */
import { computed, effect, signal } from '@preact/signals';
import { startEngine, type Engine } from '../../engine/page.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { NetworkCheckEvent } from '../../protocol/networkCheck.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { ModelFileFormat } from '../../spec/modelFile.ts';
import { downloadJson } from '../../util/download.ts';
import type { GpuKernelChoice } from '../../spec/names.ts';
import { pageHidden } from '../browser/env.ts';
import { runAfterButtonPress } from '../browser/press.ts';
import { receiveFileFromLauncher, offerFileToLauncher } from './launcherFiles.ts';
import { cancelModelExport, receiveExportedModel } from './modelExport.ts';
import { setModelAnswer } from './modelAnswers.ts';
import { localStorageValue } from '../browser/localStorageValue.ts';
import { storedHostKeyOf, storeHostKey } from '../browser/hostKeys.ts';
import { simulatedRun } from '../../simulation/simulatedRun.ts';
import { uiMessages } from '../locales/index.ts';
import { pageRoute, showRoomInAddress } from './address.ts';
import { simulatedAlgorithm } from './algorithm.ts';
import { isRunUnderWay } from './derive.ts';
import { latestTabView, publishViewNow, publishViewSoon, tabView } from './publishedView.ts';
import { integerFromQuery, parsePageRoute, type PageRoute } from './route.ts';
import { documentTitleOf } from './title.ts';
import { initialTabView, reduceTabView, tabViewWithoutRun } from './view.ts';

declare global {
  /**
   * Installed by a launcher that drives this page: receives every engine event immediately, and the
   * results of a network check.
   */
  // oxlint-disable-next-line no-var -- only `var` declares a property of globalThis
  var peergradReport: ((event: EngineEvent | NetworkCheckEvent) => void) | undefined;
  /** For the launcher: makes this tab's engine export the model. */
  // oxlint-disable-next-line no-var
  var peergradExport: ((format: ModelFileFormat) => void) | undefined;
  /** Set by a launcher whose browser has no window: nobody sees this page. */
  // oxlint-disable-next-line no-var
  var peergradUnseen: boolean | undefined;
  /** Set by a launcher that stores checkpoints: the run waits until each one is stored. */
  // oxlint-disable-next-line no-var
  var peergradCheckpointBarrier: boolean | undefined;
  /** For that launcher: tells the page that the checkpoint after `step` is stored. */
  // oxlint-disable-next-line no-var
  var peergradCheckpointSaved: ((step: number) => void) | undefined;
}

/** The request id of exports for a launcher. The ids of the page are larger. */
const LAUNCHERS_ID = 0;
/** The name of a tab whose user was not asked for a name. */
const NAMELESS = 'tab';

/** Whether a room is being created or joined. */
export const isEnteringRoom = signal(false);

/** Whether the page is visible and shows a run that is not paused. */
export const isRunOnScreen = computed(() => {
  const { lobby } = tabView.value;
  return isRunUnderWay(tabView.value) && lobby?.phase !== 'PAUSED' && !pageHidden.value;
});

type Screen = PageRoute['page'] | 'lobby' | 'run';

export const currentScreen = computed<Screen>(() => {
  if (tabView.value.run !== null) return 'run';
  if (tabView.value.lobby !== null) return 'lobby';
  return pageRoute.value.page;
});

const storedName = localStorageValue('peergrad.name');
export const ownMemberName = signal(pageRoute.peek().name ?? storedName.get() ?? '');

let engine: Engine | null = null;
/** The number of the current engine. Events of stopped engines are ignored. */
let session = 0;
/** Whether to download the next flight recording of the engine. */
let saveRecording = false;

/**
 * @param resume id of the checkpoint that the first run of the room continues. `origin`: a file
 * that the first run starts from. `isSpectator`: this tab only watches.
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
    ...ownSettings(),
    isSpectator,
    job,
    startAt,
    ...from,
  });
}

/** Joins with the settings in the address, and with the file of the launcher, if any. */
export async function joinRoomFromAddress(room: string): Promise<void> {
  const origin = await receiveFileFromLauncher();
  joinRoomInThisTab(room, origin === null ? {} : { origin });
}

/** @param options `isSpectator`: this tab only watches, so it needs no GPU and no links. */
export function joinRoomInThisTab(room: string, options: { isSpectator?: boolean; origin?: File }): void {
  const hostKey = storedHostKeyOf(room);
  const key = hostKey === undefined ? {} : { hostKey };
  enter({ type: 'join', server: location.origin, name: ownName(), ...ownSettings(), room, ...key, ...options });
}

function ownName(): string {
  return ownMemberName.peek().trim() || NAMELESS;
}

/** Returns the rank that the address requests, if any, and the kernels of this tab. */
function ownSettings(): { rank?: number; kernels: GpuKernelChoice } {
  const { rank, kernels } = pageRoute.peek();
  return rank === null ? { kernels } : { rank, kernels };
}

/** The largest number of ranks of a simulated run. */
const MAX_SIMULATED_RANKS = 64;
/** Time between two steps of a simulated run, milliseconds. */
const SIMULATED_STEP_MS = 400;

/**
 * Shows a simulated run with the settings in the address. The run advances while the page is
 * visible.
 */
export function showSimulatedRun(): void {
  const { query } = pageRoute.peek();
  const ranks = integerFromQuery(query, 'ranks', [2, 32, MAX_SIMULATED_RANKS]);
  const { algorithm, problem } = simulatedAlgorithm(query, ranks);
  const note = uiMessages.peek().run.simulated(ranks);
  const { beginning, next } = simulatedRun(
    ranks,
    integerFromQuery(query, 'seed', [0, 1, 2 ** 31]),
    algorithm,
    problem === null ? note : uiMessages.peek().run.simulatedRing(note, problem),
  );
  stop();
  const mine = session;
  publishViewNow(beginning.reduce(reduceTabView, initialTabView));
  const timer = setInterval(() => {
    if (session !== mine) return clearInterval(timer);
    if (pageHidden.peek()) return;
    publishViewSoon(next().reduce(reduceTabView, latestTabView()));
  }, SIMULATED_STEP_MS);
}

/**
 * Downloads the engine's flight recording. If the engine has failed, downloads the recording that
 * it sent before.
 */
export function downloadRecording(): void {
  saveRecording = true;
  if (engine === null) takeRecording(latestTabView().recording);
  else sendToEngine({ type: 'recording' });
}

function takeRecording(recording: FlightRecording | null): void {
  if (saveRecording && recording !== null) downloadJson(`peergrad-flight-rank-${recording.rank}.json`, recording);
  saveRecording = false;
}

/** Leaves the room and shows the front page. */
export function leaveRoom(): void {
  sendToEngine({ type: 'leave' });
  stop();
  publishViewNow(initialTabView);
  location.hash = '';
}

/**
 * Leaves a run that has ended or failed, and shows the lobby. Without a connection, it shows the
 * page for joining.
 *
 * @param shown number of the run that the page shows; `null` without a run.
 */
export function closeEndedRun(shown: number | null): void {
  const latest = latestTabView();
  if (latest.member === null) stop();
  publishViewNow(latest.member === null ? initialTabView : tabViewWithoutRun(latest, shown));
}

export function dismissFailure(): void {
  publishViewNow({ ...latestTabView(), failure: null });
}

/** Keeps the title of the document up to date. */
export function keepTitleUpdated(): void {
  effect(() => {
    document.title = documentTitleOf(tabView.value, tabView.value.room ?? pageRoute.value.room, pageHidden.value);
  });
}

/** Tells the engine whether this page is hidden, and whether somebody may see it. */
export function reportVisibilityToEngine(): void {
  effect(() => sendToEngine(visibilityOf(pageHidden.value)));
}

function visibilityOf(isHidden: boolean): EngineCommand {
  return { type: 'visibility', isHidden, isWatched: !isHidden && !globalThis.peergradUnseen };
}

/**
 * Tells the engine when the machine may have slept or changed its network. Not every browser has
 * events for both, so the engine also notices late timers.
 */
export function reportWakesToEngine(): void {
  addEventListener('online', wake);
  // https://wicg.github.io/page-lifecycle/: the browser had frozen the page.
  document.addEventListener('resume', wake);
  effect(() => {
    if (!pageHidden.value) wake();
  });
}

/**
 * Reloads the page if the browser restores it after the back button was pressed, because its engine
 * was stopped.
 */
export function reloadWhenRestored(): void {
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted && engine !== null) location.reload();
  });
}

/** Follows changes of the address. A link of another room makes this tab leave its room. */
export function reactToAddressChanges(): void {
  addEventListener('hashchange', () => {
    const next = parsePageRoute(location.hash);
    const latest = latestTabView();
    const isElsewhere = latest.room === null ? latest.run !== null : next.room !== latest.room;
    if (isElsewhere && next.page !== 'simulated') {
      stop();
      publishViewNow(initialTabView);
    }
    if (next.name !== null) ownMemberName.value = next.name;
    pageRoute.value = next;
    if (next.page === 'simulated') showSimulatedRun();
  });
}

function enter(command: Extract<EngineCommand, { type: 'create' | 'join' }>): void {
  storedName.set(command.name);
  stop();
  publishViewNow(initialTabView);
  isEnteringRoom.value = true;
  const mine = session;
  engine = startEngine((event) => {
    globalThis.peergradReport?.(event);
    runAfterButtonPress(() => {
      if (session === mine) onevent(event);
    });
  });
  if (globalThis.peergradCheckpointBarrier) sendToEngine({ type: 'checkpoint-barrier' });
  engine.send(command);
  sendToEngine(visibilityOf(pageHidden.peek()));
}

function onevent(event: EngineEvent): void {
  if (event.type === 'prediction' || event.type === 'inspection' || event.type === 'generated')
    return setModelAnswer(event);
  if (event.type === 'exported') {
    if (event.id === LAUNCHERS_ID && event.file) offerFileToLauncher(event.file.content);
    return receiveExportedModel(event);
  }
  publishViewSoon(reduceTabView(latestTabView(), event));
  if (event.type === 'recording') takeRecording(event.recording);
  if (event.type === 'admitted') {
    showRoomInAddress(event.room);
    if (event.hostKey !== null) storeHostKey(event.room, event.hostKey);
  }
  if (event.type === 'hostKey') storeHostKey(event.room, event.hostKey);
  if (event.type === 'room' || event.type === 'generation' || event.type === 'failed') isEnteringRoom.value = false;
  if (event.type === 'failed' && event.fatal) stop();
}

/** Installs the functions that a launcher calls. */
export function installLauncherFunctions(): void {
  if (globalThis.peergradReport === undefined) return;
  globalThis.peergradExport = (format) => sendToEngine({ type: 'export', id: LAUNCHERS_ID, format, which: 'best' });
  globalThis.peergradCheckpointSaved = (step) => sendToEngine({ type: 'checkpoint-saved', step });
}

function wake(): void {
  sendToEngine({ type: 'wake' });
}

/**
 * Sends a command to the engine, if there is one. modelAnswers.ts receives the model's answers, and
 * modelExport.ts receives exported files.
 */
export function sendToEngine(command: EngineCommand): void {
  engine?.send(command);
}

function stop(): void {
  const old = engine;
  engine = null;
  session++;
  isEnteringRoom.value = false;
  saveRecording = false;
  cancelModelExport();
  old?.stop();
}
