/**
 * The view that results from the engine's events. Each event is reduced immediately, but the view
 * is published only a few times a second, on an animation frame. So drawing never delays training,
 * and a hidden tab draws nothing.
 */
import { computed, effect, signal, type ReadonlySignal } from '@preact/signals';
import { assignRanks } from '../../protocol/seating.ts';
import { pageHidden } from '../browser/env.ts';
import { runAfterButtonPress } from '../browser/press.ts';
import { pageRoute } from './address.ts';
import { isSoftwareDevice } from './derive.ts';
import { membersByRank } from '../people.ts';
import { documentTitleOf } from './title.ts';
import { initialTabView, type TabView } from './view.ts';

/** Milliseconds between two redraws. If digits changed faster, nobody could read them. */
const PUBLISH_MS = 200;
/** Milliseconds between two redraws if the CPU both trains and paints. */
const THRIFTY_PUBLISH_MS = 500;
/** Milliseconds between two updates of the title of a hidden tab. */
const RETITLE_MS = 1000;

const published = signal<TabView>(initialTabView);
export const tabView: ReadonlySignal<TabView> = published;

/** Whether the CPU both trains and paints. The page then paints less often. */
export const computesOnCpu = computed(() => isSoftwareDevice(tabView.value.device));

const ofRun = computed(() => tabView.value.run?.members ?? null);
const ofLobby = computed(() => tabView.value.lobby?.members ?? null);
effect(() => {
  membersByRank.value = ofRun.value ?? assignRanks(ofLobby.value ?? []);
});

let latest = initialTabView;
let frame = 0;
let waiting: ReturnType<typeof setTimeout> | null = null;
let lastPublished = -Infinity;
let retitling: ReturnType<typeof setTimeout> | null = null;

/** Returns the view after the latest event, which may not be published yet. */
export function latestTabView(): TabView {
  return latest;
}

export function publishViewNow(next: TabView): void {
  latest = next;
  publish();
}

/**
 * Publishes the view on a later frame. A change to another screen is published immediately, so that
 * a click cannot hit a button of the previous screen.
 */
export function publishViewSoon(next: TabView): void {
  latest = next;
  const isElsewhere = (next.run === null) !== (published.peek().run === null);
  if (isElsewhere) publish();
  else schedule();
}

function schedule(): void {
  // Only the lobby is drawn: there a launcher chooses data files, as a user does.
  if (globalThis.peergradUnseen && latest.run !== null) return;
  // A hidden tab only updates its title.
  if (pageHidden.peek()) {
    retitling ??= setTimeout(() => {
      retitling = null;
      document.title = documentTitleOf(latest, latest.room ?? pageRoute.peek().room, pageHidden.peek());
    }, RETITLE_MS);
  }
  if (frame !== 0 || waiting !== null) return;
  const pause = computesOnCpu.peek() ? THRIFTY_PUBLISH_MS : PUBLISH_MS;
  // Frames are requested only when needed, because the browser paints each requested frame even if
  // nothing has changed.
  waiting = setTimeout(
    () => {
      waiting = null;
      frame = requestAnimationFrame((now) => runAfterButtonPress(() => publish(now)));
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
