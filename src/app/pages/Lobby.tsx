/** Before a run: the code to join by, who is here, what will be trained, and the one button that starts it. */
import { seats } from '../../protocol/ranks.ts';
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { isHost, missingToStart, runFromOutside, startNote, startObstacle } from '../derive.ts';
import { describeJob } from '../jobForm.ts';
import { Banner } from '../parts/Banner.tsx';
import { CopyButton } from '../parts/CopyButton.tsx';
import { FileDrop } from '../parts/FileDrop.tsx';
import { HostControls } from '../parts/HostControls.tsx';
import { JobForm } from '../parts/JobForm.tsx';
import { QrCode } from '../parts/QrCode.tsx';
import { RankMark } from '../parts/RankMark.tsx';
import { RemoveButton } from '../parts/RemoveButton.tsx';
import { StatusLine } from '../parts/StatusLine.tsx';
import { RingView } from '../ring/RingView.tsx';
import { SimulatedRing } from '../ring/SimulatedRing.tsx';
import { isLocalOnly, roomLink } from '../route.ts';
import { configure, dismissFailure, giveFiles, start } from '../store.ts';
import { insteadOfRing } from '../strategies.ts';
import type { Lobby as LobbyView, View } from '../view.ts';

export function Lobby({ view, lobby }: { view: View; lobby: LobbyView }) {
  const room = view.room ?? '';
  const link = roomLink(location, room);
  const host = isHost(view);
  const ready = lobby.members.filter((one) => one.device !== null).length;
  return (
    <main class="lobby wrap">
      {view.failure !== null && (
        <Banner failure={view.failure}>
          <button type="button" class="quiet" onClick={dismissFailure}>
            Dismiss
          </button>
        </Banner>
      )}
      <section class="invite" aria-label="Invite">
        <div class="invite-words">
          <p class="dim">Join with the code</p>
          <h1 class="code huge">{formatRoomCode(room)}</h1>
          <p class="link">{link.replace(/^https?:\/\//, '')}</p>
          <div class="row">
            <CopyButton text={link}>Copy the link</CopyButton>
            {host && <HostControls lobby={lobby} />}
          </div>
          {lobby.isLocked && <p class="small wait">Locked: nobody else can join.</p>}
          {isLocalOnly(location.hostname) && (
            <p class="dim small note">
              This page was opened at {location.hostname}, which only this machine can reach. To invite others, open it
              by this machine’s https address.
            </p>
          )}
        </div>
        <QrCode text={link} label={`QR code of ${link}`} />
      </section>
      <div class="lobby-columns">
        <section aria-labelledby="who">
          <h2 id="who">
            <span class="number">
              {ready} of {lobby.members.length}
            </span>{' '}
            ready
          </h2>
          <People view={view} lobby={lobby} />
          <StatusLine view={view} />
          {view.deviceNote !== null && <p class="dim small note">{view.deviceNote}</p>}
        </section>
        <section aria-label="Preview" class="lobby-ring">
          <Preview view={view} lobby={lobby} />
        </section>
        <section aria-labelledby="what" class="lobby-job">
          <h2 id="what">
            {lobby.job.job} <span class="dim">with</span> {lobby.job.model}
          </h2>
          {view.goesOnAfter !== null && <p>Goes on from step {view.goesOnAfter}, which this browser has saved.</p>}
          {host && lobby.phase === 'FORMING' && view.goesOnAfter === null ? (
            <JobForm job={lobby.job} onjob={configure} />
          ) : (
            <p class="dim">{describeJob(lobby.job)}.</p>
          )}
          {lobby.job.data.kind === 'files' && <FileDrop onfiles={giveFiles} />}
          <Starting view={view} lobby={lobby} />
        </section>
      </div>
    </main>
  );
}

function People({ view, lobby }: { view: View; lobby: LobbyView }) {
  const places = seats(lobby.members);
  return (
    <ul class={isHost(view) ? 'people plain led' : 'people plain'}>
      {lobby.members.map((one) => (
        <li key={one.member} class={one.device === null ? 'pale' : ''}>
          <RankMark rank={places.indexOf(one)} size={20} />
          <span class="ellipsis">
            {one.name}
            <span class="dim">{roles(one.member === view.member, lobby.hosts.includes(one.member))}</span>
          </span>
          <span class="dim small ellipsis">{one.device === null ? 'getting ready …' : one.device.adapter}</span>
          {isHost(view) && one.member !== view.member && <RemoveButton member={one.member} name={one.name} />}
        </li>
      ))}
    </ul>
  );
}

function roles(you: boolean, host: boolean): string {
  const words = [you ? 'you' : '', host ? 'host' : ''].filter((word) => word !== '');
  return words.length === 0 ? '' : ` (${words.join(', ')})`;
}

/** The ring that will be, or what will be instead: who is here, and pale places for those whom an automatic start waits for. */
function Preview({ view, lobby }: { view: View; lobby: LobbyView }) {
  const { job } = lobby;
  const places = seats(lobby.members, lobby.startAt ?? 0);
  const tabs = places.map((one) => (one === null ? { name: null } : { name: one.name, pale: one.device === null }));
  const at = places.findIndex((one) => one?.member === view.member);
  const you = at < 0 ? null : at;
  const instead = insteadOfRing(job, tabs.length, null);
  if (instead !== null) {
    const isOneTab = job.strategy === 'data-parallel';
    const members = isOneTab ? Array.from({ length: job.replicas }, () => ({ name: '' })) : tabs;
    return (
      <figure class="simulated">
        <RingView
          members={members}
          you={isOneTab ? null : you}
          lines={instead.lines}
          player={null}
          centre={{ top: '', title: '', bottom: '' }}
          label={`${members.length} ranks.`}
        />
        <figcaption class="caption">{instead.words}</figcaption>
      </figure>
    );
  }
  return <SimulatedRing members={tabs} you={you} bottom="simulated: a preview" />;
}

function Starting({ view, lobby }: { view: View; lobby: LobbyView }) {
  if (lobby.phase !== 'FORMING') return <p class="waiting">{runFromOutside(view, lobby)}</p>;
  const missing = missingToStart(lobby);
  const automatic =
    missing === null
      ? null
      : `Starts by itself when ${lobby.startAt} are ready${missing > 0 ? ` (${missing} more)` : ''}.`;
  if (!isHost(view)) return <p class="waiting">{automatic ?? 'Waiting for the host to start.'}</p>;
  const obstacle = startObstacle(lobby, view.member);
  return (
    <div class="starting">
      <button type="button" class="primary" disabled={obstacle !== null} aria-describedby="start-note" onClick={start}>
        Start
      </button>
      <p id="start-note" class="dim small">
        {obstacle ?? startNote(lobby)}
        {obstacle === null && automatic !== null && ` ${automatic}`}
      </p>
    </div>
  );
}
