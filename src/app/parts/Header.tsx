/** The line above and the line below every page. */
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { projector, theme, toggleProjector, toggleTheme } from '../theme.ts';
import { helpOpen } from './HowItWorks.tsx';

export function Header({ room, onleave }: { room: string | null; onleave: (() => void) | null }) {
  const dark = theme.value === 'dark';
  return (
    <header class="header wrap">
      {onleave === null ? (
        <a class="brand" href="#">
          {LOGO} peergrad
        </a>
      ) : (
        <span class="brand">
          {LOGO} <span class="brand-name">peergrad</span>{' '}
          {room !== null && <span class="brand-room">{formatRoomCode(room)}</span>}
        </span>
      )}
      <nav class="row" aria-label="Page">
        {onleave !== null && (
          <button type="button" class="quiet" onClick={onleave}>
            Leave
          </button>
        )}
        <button type="button" class="quiet" onClick={() => (helpOpen.value = true)}>
          How it works
        </button>
        <button
          type="button"
          class="quiet glyph large-letters"
          aria-pressed={projector.value}
          aria-label="Large letters, for a projector"
          title="Large letters, for a projector"
          onClick={toggleProjector}
        >
          Aa
        </button>
        <button
          type="button"
          class="quiet glyph"
          aria-label={dark ? 'Light colours' : 'Dark colours'}
          title={dark ? 'Light colours' : 'Dark colours'}
          onClick={toggleTheme}
        >
          {dark ? '☀' : '☾'}
        </button>
      </nav>
    </header>
  );
}

export function Footer() {
  return (
    <footer class="footer wrap">
      <span>Gradients go from browser to browser; the server only introduces them.</span>
    </footer>
  );
}

/** The ring: four marks on a circle. */
const LOGO = (
  <svg class="logo" width="20" height="20" viewBox="-12 -12 24 24" aria-hidden="true">
    <circle r="8" class="logo-ring" />
    <circle cy="-8" r="3" style={{ fill: 'var(--rank-0)' }} />
    <rect x="5.4" y="-2.6" width="5.2" height="5.2" style={{ fill: 'var(--rank-1)' }} />
    <path d="M0,4.4L3.4,10.2H-3.4Z" style={{ fill: 'var(--rank-2)' }} />
    <path d="M-8,-3.6L-4.4,0L-8,3.6L-11.6,0Z" style={{ fill: 'var(--rank-3)' }} />
  </svg>
);
