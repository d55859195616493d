/** The ways for others to enter the room: its code, its link, and the link as a QR code. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { isLocalOnlyHost } from '../../util/localHost.ts';
import { loadReachableServerOrigins, reachableServerOrigins } from '../browser/serverData.ts';
import { CopyButton } from '../components/CopyButton.tsx';
import { Dialog } from '../components/Dialog.tsx';
import { uiMessages } from '../locales/index.ts';
import { pagePartsHiddenByAddress, pageRoute } from '../state/address.ts';
import { tabView } from '../state/publishedView.ts';
import { roomShareLink, viewSettingsFromQuery, type HideablePagePart } from '../state/route.ts';
import { qrCodeOf } from '../../util/qrCode.ts';

interface Props {
  room: string;
  isLocked: boolean;
  /** The parts of the page that are hidden from people who open the link. */
  hides: ReadonlySet<HideablePagePart>;
  /** Further buttons, and the content below the buttons. */
  buttons?: ComponentChildren;
  children?: ComponentChildren;
}

export function Invitation({ room, isLocked, hides, buttons, children }: Props) {
  const labels = uiMessages.value.lobby;
  const isLocal = isLocalOnlyHost(location.hostname);
  useEffect(() => {
    if (isLocal) void loadReachableServerOrigins();
  }, [isLocal]);
  const [origin = location.origin, ...more] = isLocal ? reachableServerOrigins.value : [];
  // The link leaves out the theme and the size, because they are settings of this screen.
  const { lang = null } = viewSettingsFromQuery(pageRoute.value.query);
  const settings = { lang, hide: [...hides].join(',') || null };
  const link = roomShareLink({ origin, pathname: location.pathname }, room, settings);
  return (
    <section class="invite" aria-label={labels.invite}>
      <div class="invite-words">
        <p class="dim">{labels.joinWith}</p>
        <h1 class="code huge">{formatRoomCode(room)}</h1>
        <p class="link">{link.replace(/^https?:\/\//, '')}</p>
        <div class="row">
          <CopyButton text={link}>{labels.copy}</CopyButton>
          {buttons}
        </div>
        {children}
        {isLocked && <p class="small wait">{labels.locked}</p>}
        {isLocal && (
          <p class="dim small note">
            {reachableServerOrigins.value.length === 0
              ? labels.localOnly(location.hostname)
              : labels.forOthers(location.hostname, more, origin.startsWith('https:'))}
          </p>
        )}
      </div>
      <QrCode text={link} label={labels.qr(link)} />
    </section>
  );
}

/** A button with the room's code. During a run, it opens the invitation. */
export function InviteButton({ room }: { room: string }) {
  const { shell, lobby } = uiMessages.value;
  const open = useSignal(false);
  return (
    <>
      <button
        type="button"
        class="quiet brand-room"
        aria-label={`${lobby.invite}: ${formatRoomCode(room)}`}
        title={shell.invite}
        onClick={() => (open.value = true)}
      >
        {QR_ICON} <span class="brand-code">{formatRoomCode(room)}</span>
      </button>
      <Dialog open={open} title={lobby.invite}>
        {open.value && (
          <Invitation
            room={room}
            isLocked={tabView.value.lobby?.isLocked ?? false}
            hides={pagePartsHiddenByAddress.value}
          />
        )}
      </Dialog>
    </>
  );
}

const QR_ICON = (
  <svg width="16" height="16" viewBox="0 0 7 7" aria-hidden="true" shape-rendering="crispEdges">
    <path
      fill="currentColor"
      d="M0,0h3v3h-3zM4,0h3v3h-3zM0,4h3v3h-3zM4,4h1v1h-1zM6,4h1v1h-1zM5,5h1v1h-1zM4,6h1v1h-1zM6,6h1v1h-1z"
    />
  </svg>
);

function QrCode({ text, label }: { text: string; label: string }) {
  const { path, size } = qrCodeOf(text);
  return (
    <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label} shape-rendering="crispEdges">
      <rect width={size} height={size} class="qr-paper" />
      <path d={path} class="qr-ink" />
    </svg>
  );
}
