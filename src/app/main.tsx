/** Entry of the page. */
import { render } from 'preact';
import { App } from './App.tsx';
import { followAddress, followTitle, isWatching, joinRoom, name, reloadWhenRestored, route } from './store.ts';
import { applyTheme } from './theme.ts';
import { keepAwake } from './wakeLock.ts';
import './styles/base.css';
import './styles/parts.css';
import './styles/pages.css';
import './styles/ring.css';
import './styles/run.css';

/** What an automatic tab is called when the address gives it no name. */
const NAMELESS = 'tab';

applyTheme();
followAddress();
followTitle();
reloadWhenRestored();
keepAwake(isWatching);
render(<App />, document.querySelector('#app')!);

// Not in a component: a hidden tab draws nothing, and must join all the same.
const { auto, room } = route.peek();
if (auto && room !== null) joinRoom(room, name.peek().trim() || NAMELESS);
