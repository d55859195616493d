/**
 * Visits every page of the app in the order in which a user sees them, in real tabs with a real
 * run. The tour and tests use this module. It navigates by the visible labels on the pages.
 */
import type { Browser, Page } from 'playwright-core';
import { createDeferred } from '../../src/util/deferred.ts';
import { BINDING, eventsOf, reportScript } from '../../launcher/browser/pageEvents.ts';

/** A page to visit. */
export interface Stop {
  /** Name of the page's screenshots. */
  name: string;
  title: string;
  /** Description of the page. */
  caption: string;
  /** CSS selector of the part of the page to show; `null`: the top of the page. */
  part: string | null;
}

export interface Look {
  theme: 'light' | 'dark';
  size: keyof typeof SIZES;
}

interface VisitOptions {
  browser: Browser;
  /** Origin of the server. The server must have no rooms. */
  origin: string;
  /** Number of steps of the run, and the step after which the run's page is visited. */
  steps: number;
  firstLook: number;
  /** Called for each page and awaited. The run continues meanwhile. */
  visit: (stop: Stop, page: Page) => Promise<void>;
}

/** Window sizes in CSS pixels: a laptop and the narrowest phone. */
export const SIZES = { wide: { width: 1280, height: 800 }, phone: { width: 360, height: 740 } } as const;
const LOOKS: readonly Look[] = (['light', 'dark'] as const).flatMap((theme) =>
  (['wide', 'phone'] as const).map((size) => ({ theme, size })),
);
const NAMES = ['Ada', 'Ben', 'Cleo', 'Dai'] as const;
/** The room's code in the URL of a page. */
const ROOM = /#([A-Z0-9]{3}-[A-Z0-9]{3})$/;
/**
 * Milliseconds for a page to show its content. It is long because four tabs on two cores compile
 * shaders for tens of seconds.
 */
const PATIENCE_MS = 240_000;
/** Milliseconds for a page to answer a click on a download. */
const DOWNLOAD_MS = 60_000;
/** The strokes of a 2, as fractions of the pad's sides. */
const TWO = [
  [0.3, 0.28],
  [0.36, 0.17],
  [0.5, 0.12],
  [0.64, 0.18],
  [0.68, 0.32],
  [0.6, 0.5],
  [0.44, 0.68],
  [0.28, 0.86],
  [0.5, 0.85],
  [0.74, 0.86],
] as const;

/**
 * Shows `page` in both themes and in both window sizes, with `part` in view and unfolded, and calls
 * `see` for each.
 */
export async function inEveryLook(page: Page, part: string | null, see: (look: Look) => Promise<void>): Promise<void> {
  for (const look of LOOKS) {
    await page.emulateMedia({ colorScheme: look.theme });
    await page.setViewportSize(SIZES[look.size]);
    await show(page, part);
    await page.evaluate(settled);
    await see(look);
  }
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize(SIZES.wide);
  // Panels move until charts have their new size, and a button that moves may lose a click.
  await page.evaluate(settled);
}

/**
 * Runs in the page. Resolves when all changes are drawn: charts measure a new size in one frame and
 * draw in the next. Finite animations are finished immediately; endless animations continue.
 */
async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
  const fading = document.getAnimations().filter(({ effect }) => effect?.getComputedTiming().endTime !== Infinity);
  // The animations are not awaited, because Chromium never settles `finished` for elements that are
  // not visible.
  for (const animation of fading) animation.finish();
  await new Promise(requestAnimationFrame);
}

async function show(page: Page, part: string | null): Promise<void> {
  if (part === null) return page.evaluate(() => scrollTo(0, 0));
  const fold = page.locator(`details${part}:not([open]) > summary`);
  if ((await fold.count()) > 0) await fold.click();
  await page.locator(part).evaluate((element) => element.scrollIntoView());
}

/** Opens all pages in the order in which a class sees them, and calls `visit` for each page. */
export async function visitEveryPage(options: VisitOptions): Promise<void> {
  const { browser, origin, steps, firstLook, visit } = options;
  const open = async (
    hash: string,
    prepare: (page: Page) => Promise<unknown> = () => Promise.resolve(),
  ): Promise<Page> => {
    const context = await browser.newContext({ viewport: SIZES.wide });
    context.setDefaultTimeout(PATIENCE_MS);
    // Unless the page may use the microphone, WebRTC in Chromium finds only the network interface
    // of the default route.
    await context.grantPermissions(['microphone']);
    const page = await context.newPage();
    await prepare(page);
    await page.goto(`${origin}/${hash}`);
    return page;
  };

  const ada = await open('');
  await ada.getByRole('heading', { level: 1 }).waitFor();
  await visit(STOPS.home, ada);
  await press(ada, 'How it works');
  await visit(STOPS.help, ada);
  await press(ada, 'Close');
  const solo = await open('#lesson');
  await solo.getByRole('button', { name: 'Next', exact: true }).first().waitFor();
  await visit(STOPS.lesson, solo);
  await solo.close();

  await ada.goto(`${origin}/#new?name=${NAMES[0]}&maxSteps=${steps}&hashEvery=10`);
  await ada.getByRole('button', { name: 'Open the room' }).waitFor();
  await visit(STOPS.new, ada);
  await press(ada, 'Open the room');
  await ada.waitForURL(ROOM);
  const code = ROOM.exec(ada.url())![1]!;

  const begun = createDeferred();
  const ben = await open(`#${code}?name=${NAMES[1]}`, async (page) => {
    await page.exposeBinding(BINDING, (_source, batch: string) => {
      if (eventsOf(batch).some((event) => event.type === 'step' && event.step >= firstLook)) begun.resolve();
    });
    await page.addInitScript(reportScript());
  });
  await ben.getByRole('button', { name: 'Join', exact: true }).waitFor();
  await visit(STOPS.join, ben);
  await press(ben, 'Join');
  for (const name of NAMES.slice(2)) await open(`#${code}?name=${name}&auto`);
  await ada.getByRole('heading', { name: `${NAMES.length} of ${NAMES.length} ready` }).waitFor();
  await visit(STOPS.lobby, ada);

  await press(ada, 'Start');
  await begun.promise;
  await visit(STOPS.run, ada);
  await drawTwo(ada);
  await visit(STOPS.inspection, ada);
  await ada.getByText('are classified correctly').waitFor();
  await visit(STOPS.result, ada);

  const recordings = await Promise.all([ada, ben].map(saveRecording));
  const later = await open('#recording');
  await later.locator('input[type=file]').setInputFiles(recordings);
  await later.getByRole('table').first().waitFor();
  await visit(STOPS.recording, later);
}

/** Downloads the flight recorder's file. */
async function saveRecording(page: Page): Promise<string> {
  const [download] = await Promise.all([
    page.waitForEvent('download', { timeout: DOWNLOAD_MS }),
    press(page, 'Download flight recording'),
  ]);
  return download.path();
}

function press(page: Page, name: string): Promise<void> {
  return page.getByRole('button', { name, exact: true }).click();
}

/** Draws a 2 on the pad of the inspection panel and waits for the model's answer. */
async function drawTwo(page: Page): Promise<void> {
  const pad = page.getByRole('application', { name: /^Drawing pad/ });
  const { width, height } = (await pad.boundingBox())!;
  // Positions are relative to the pad's current place, which moves because panels above it appear
  // and grow during the run.
  const moveTo = ([right, down]: (typeof TWO)[number]) =>
    pad.hover({ position: { x: right * width, y: down * height } });
  await moveTo(TWO[0]);
  await page.mouse.down();
  for (const place of TWO) await moveTo(place);
  await page.mouse.up();
  // The model recognizes the digit only after some more steps.
  await page.getByText('The model sees the digit 2.').waitFor();
}

export const STOPS = {
  home: {
    name: 'home',
    part: null,
    title: 'The front page',
    caption: 'The first page shows a simulated ring, and the ways to start.',
  },
  help: {
    name: 'help',
    part: null,
    title: 'How it works',
    caption:
      'This page explains the method in four steps, and all terms that the pages use. The key `?` opens it on every page.',
  },
  lesson: {
    name: 'lesson',
    part: null,
    title: 'The lesson',
    caption:
      'People do an all-reduce by hand, step by step, with small numbers that they can change. The ranks here are simulated.',
  },
  new: { name: 'new', part: null, title: 'A new room', caption: 'The user chooses a name and the job to train.' },
  join: {
    name: 'join',
    part: null,
    title: 'Joining',
    caption: 'The room code is already filled in. The page checks what a tab needs, and explains it in plain words.',
  },
  lobby: {
    name: 'lobby',
    part: null,
    title: 'The lobby',
    caption:
      'The lobby shows the room code to read aloud, a QR code to scan, and the names of the people who have joined.',
  },
  run: {
    name: 'run',
    part: null,
    title: 'A run',
    caption:
      'Chunks move around the ring as they did a moment ago. The page also shows curves, the time of a step, and below them the model, the links and the ranks.',
  },
  inspection: {
    name: 'inspection',
    title: 'What the model has learned',
    part: '.inspection-panel',
    caption:
      'People draw a digit, and the model classifies it. The page also shows the most confident mistakes of the model, and the weights of its first layer.',
  },
  result: {
    name: 'result',
    part: null,
    title: 'The result',
    caption:
      'The page shows the result, whether all ranks have the same model, and the bytes that they sent compared with theory.',
  },
  recording: {
    name: 'recording',
    part: null,
    title: 'Flight recordings',
    caption:
      'The flight recordings of several ranks are merged. The page plays their collectives, and shows the latest steps and which rank waited for which.',
  },
} as const satisfies Record<string, Stop>;
