/** The app: the current page with its header and footer. */
import { useEffect, useLayoutEffect } from 'preact/hooks';
import { Footer, Header } from './shell/Header.tsx';
import { isHelpOpen, HowItWorks } from './shell/HowItWorks.tsx';
import { Home } from './home/Home.tsx';
import { Join } from './home/Join.tsx';
import { NewRoom } from './home/NewRoom.tsx';
import { lazyPage } from './shell/lazyPage.tsx';
import { pageRoute } from './state/address.ts';
import { wouldLoseByLeaving } from './state/derive.ts';
import { tabView } from './state/publishedView.ts';
import { leaveRoom, currentScreen } from './state/store.ts';

const Lobby = lazyPage(async () => (await import('./lobby/Lobby.tsx')).Lobby);
const Run = lazyPage(async () => (await import('./run/RunScreen.tsx')).RunScreen);
const RoomLesson = lazyPage(async () => (await import('./lesson/RoomLesson.tsx')).RoomLesson);
const SoloLesson = lazyPage(async () => (await import('./lesson/SoloLesson.tsx')).SoloLesson);
const PipelineLesson = lazyPage(async () => (await import('./lesson/pipeline/PipelineLesson.tsx')).PipelineLesson);
const NetworkPage = lazyPage(async () => (await import('./network/NetworkPage.tsx')).NetworkPage);
const RecordingPage = lazyPage(async () => (await import('./monitor/RecordingPage.tsx')).RecordingPage);

export function App() {
  const inside = currentScreen.value === 'lobby' || currentScreen.value === 'run';
  const room = tabView.value.room ?? pageRoute.value.room;
  useEffect(() => {
    const onkey = (event: KeyboardEvent): void => {
      const typing = event.target instanceof Element && event.target.closest('input, select, textarea') !== null;
      if (event.key === '?' && !typing) isHelpOpen.value = true;
    };
    addEventListener('keydown', onkey);
    return () => removeEventListener('keydown', onkey);
  }, []);
  const job = tabView.value.lobby?.job.job ?? null;
  // A tab in a room will soon need the modules of the run's page. They are loaded now, because the
  // server may be unreachable later.
  useEffect(() => {
    if (job === 'lesson') RoomLesson.fetch();
    else if (job !== null) Run.fetch();
  }, [job]);
  return (
    <>
      <Header
        room={currentScreen.value === 'run' ? room : null}
        onleave={inside ? leaveRoom : null}
        asks={wouldLoseByLeaving(tabView.value)}
      />
      <Page />
      <Footer />
      <HowItWorks />
    </>
  );
}

function Page() {
  const now = tabView.value;
  const address = pageRoute.value;
  // Each page opens at its top, even if the previous page was scrolled.
  useLayoutEffect(() => scrollTo(0, 0), [currentScreen.value]);
  switch (currentScreen.value) {
    case 'home':
      return <Home key={address.wrongCode} wrongCode={address.wrongCode} failure={now.failure} />;
    case 'new':
      return <NewRoom failure={now.failure} />;
    case 'join':
      return <Join key={address.room} room={address.room ?? ''} failure={now.failure} />;
    case 'lobby':
      return now.lobby === null ? null : <Lobby.Page view={now} lobby={now.lobby} />;
    case 'run':
      if (now.run === null) return null;
      return now.run.job.job === 'lesson' ? (
        <RoomLesson.Page view={now} run={now.run} />
      ) : (
        <Run.Page view={now} run={now.run} />
      );
    case 'lesson':
      return <SoloLesson.Page />;
    case 'pipeline':
      return <PipelineLesson.Page />;
    case 'network':
      return <NetworkPage.Page />;
    case 'simulated':
      return null;
    case 'recording':
      return <RecordingPage.Page />;
    default:
      return currentScreen.value satisfies never;
  }
}
