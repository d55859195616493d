/** Starts the page. */
import { effect } from '@preact/signals';
import { render } from 'preact';
import { App } from './App.tsx';
import { pageRoute } from './state/address.ts';
import {
  reactToAddressChanges,
  keepTitleUpdated,
  reportVisibilityToEngine,
  reportWakesToEngine,
  isRunOnScreen,
  joinRoomFromAddress,
  reloadWhenRestored,
  installLauncherFunctions,
  showSimulatedRun,
} from './state/store.ts';
import { trackButtonPresses } from './browser/press.ts';
import { writeAppearanceAttributes, setAppearanceFromQuery } from './browser/theme.ts';
import { ensureValidNavigatorLanguage } from './browser/validLanguage.ts';
import { keepScreenAwakeWhile } from './browser/wakeLock.ts';
import { isUiLanguage, uiLanguage, loadUiLanguage } from './locales/index.ts';
import './styles/base.css';
import './styles/parts.css';
import './styles/feedback.css';
import './styles/pages.css';
import './styles/ring.css';
import './styles/pipeline.css';
import './styles/player.css';
import './styles/grid.css';
import './styles/run.css';
import './styles/monitor.css';
import './styles/inspection.css';
import './styles/generation.css';
import './styles/lesson.css';
import './styles/lessonBars.css';
import './styles/pipelineLesson.css';

export async function startPage(): Promise<void> {
  ensureValidNavigatorLanguage();
  // The page waits for its texts here, so that the first frame is already in the chosen language.
  await loadUiLanguage(pageRoute.peek().query.get('lang'));
  effect(() => {
    const { query } = pageRoute.value;
    setAppearanceFromQuery(query);
    const asked = query.get('lang');
    if (isUiLanguage(asked) && asked !== uiLanguage.peek()) void loadUiLanguage(asked);
  });
  writeAppearanceAttributes();
  reactToAddressChanges();
  keepTitleUpdated();
  reportVisibilityToEngine();
  reportWakesToEngine();
  reloadWhenRestored();
  installLauncherFunctions();
  keepScreenAwakeWhile(isRunOnScreen);
  trackButtonPresses();
  render(<App />, document.querySelector('#app')!);

  // A tab that joins by itself does so here and not in a component: a hidden tab draws no
  // components, but must join, too.
  const { auto, page, room } = pageRoute.peek();
  if (page === 'simulated') showSimulatedRun();
  if (auto && room !== null) void joinRoomFromAddress(room);
}
