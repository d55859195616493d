/** Header and footer of every page. */
import { useSignal } from '@preact/signals';
import { Dialog } from '../components/Dialog.tsx';
import { InviteButton } from '../lobby/Invitation.tsx';
import { writeSettingsToAddress } from '../state/address.ts';
import { pageWidthClass, isProjectorSize, theme, toggleProjectorSize, toggleTheme } from '../browser/theme.ts';
import { chooseUiLanguage, isUiLanguage, uiLanguage, UI_LANGUAGES, uiMessages } from '../locales/index.ts';
import { isHelpOpen } from './HowItWorks.tsx';

interface Props {
  /** The room of the current run. The header offers an invitation to it. */
  room: string | null;
  onleave: (() => void) | null;
  /** Whether to ask before leaving. */
  asks: boolean;
}

export function Header({ room, onleave, asks }: Props) {
  const leaving = useSignal(false);
  const { shell } = uiMessages.value;
  const dark = theme.value === 'dark';
  const narrow = pageWidthClass.value === 'narrow';
  return (
    <header class="header wrap">
      {onleave === null ? (
        <a class="brand" href="#">
          {LOGO} peergrad
        </a>
      ) : (
        <span class="brand">
          {LOGO} <span class="brand-name">peergrad</span>
          {room !== null && <InviteButton room={room} />}
        </span>
      )}
      <nav class="row" aria-label={shell.page}>
        {onleave !== null && (
          <button type="button" class="quiet" onClick={() => (asks ? (leaving.value = true) : onleave())}>
            {shell.leave}
          </button>
        )}
        <button
          type="button"
          class={narrow ? 'quiet glyph' : 'quiet'}
          aria-label={shell.howItWorks}
          title={narrow ? shell.howItWorks : undefined}
          onClick={() => (isHelpOpen.value = true)}
        >
          {narrow ? '?' : shell.howItWorks}
        </button>
        <button
          type="button"
          class="quiet glyph large-letters"
          aria-pressed={isProjectorSize.value}
          aria-label={shell.largeLetters}
          title={shell.largeLetters}
          onClick={() => {
            toggleProjectorSize();
            writeSettingsToAddress({ size: null });
          }}
        >
          Aa
        </button>
        {document.fullscreenEnabled && !narrow && (
          <button
            type="button"
            class="quiet glyph"
            aria-label={shell.fullScreen}
            title={shell.fullScreen}
            onClick={() => void toggleFullScreen()}
          >
            {CORNERS}
          </button>
        )}
        <button
          type="button"
          class="quiet glyph"
          aria-label={dark ? shell.light : shell.dark}
          title={dark ? shell.light : shell.dark}
          onClick={() => {
            toggleTheme();
            writeSettingsToAddress({ theme: null });
          }}
        >
          {dark ? '☀' : '☾'}
        </button>
        <LanguageChoice />
      </nav>
      {onleave !== null && (
        <Dialog open={leaving} title={shell.leaveQuestion}>
          <p>{shell.leaveAbout}</p>
          <div class="row">
            <button
              type="button"
              class="danger"
              onClick={() => {
                leaving.value = false;
                onleave();
              }}
            >
              {shell.leave}
            </button>
            <button type="button" onClick={() => (leaving.value = false)}>
              {shell.stay}
            </button>
          </div>
        </Dialog>
      )}
    </header>
  );
}

function toggleFullScreen(): Promise<void> {
  return document.fullscreenElement === null ? document.documentElement.requestFullscreen() : document.exitFullscreen();
}

export function Footer() {
  return (
    <footer class="footer wrap">
      <span>{uiMessages.value.shell.footer}</span>
    </footer>
  );
}

function LanguageChoice() {
  return (
    <select
      class="quiet language"
      aria-label={uiMessages.value.shell.language}
      value={uiLanguage.value}
      onChange={({ currentTarget: { value } }) => {
        if (!isUiLanguage(value)) return;
        void chooseUiLanguage(value);
        writeSettingsToAddress({ lang: null });
      }}
    >
      {Object.entries(UI_LANGUAGES).map(([tag, name]) => (
        <option key={tag} value={tag} lang={tag}>
          {name}
        </option>
      ))}
    </select>
  );
}

const CORNERS = (
  <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
    <path fill="none" stroke="currentColor" stroke-width="1.5" d="M1,5V1H5M9,1H13V5M13,9V13H9M5,13H1V9" />
  </svg>
);

/** The logo: a ring with four marks. */
const LOGO = (
  <svg class="logo" width="20" height="20" viewBox="-12 -12 24 24" aria-hidden="true">
    <circle r="8" class="logo-ring" />
    <circle cy="-8" r="3" style={{ fill: 'var(--rank-0)' }} />
    <rect x="5.4" y="-2.6" width="5.2" height="5.2" style={{ fill: 'var(--rank-1)' }} />
    <path d="M0,4.4L3.4,10.2H-3.4Z" style={{ fill: 'var(--rank-2)' }} />
    <path d="M-8,-3.6L-4.4,0L-8,3.6L-11.6,0Z" style={{ fill: 'var(--rank-3)' }} />
  </svg>
);
