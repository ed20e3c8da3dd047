-- A journal of schema 0006, as its version left it when it was killed: three sessions still open.
PRAGMA application_id = 1229734731;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0006');
CREATE TABLE decision (
    cursor INTEGER NOT NULL,
    session VARCHAR NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    agent VARCHAR NOT NULL,
    call_id VARCHAR NOT NULL,
    tool VARCHAR NOT NULL,
    called VARCHAR NOT NULL,
    input VARCHAR NOT NULL,
    mode VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL,
    net VARCHAR,
    rule VARCHAR,
    place VARCHAR,
    "by" VARCHAR,
    via VARCHAR,
    result VARCHAR,
    kind VARCHAR DEFAULT 'call' NOT NULL,
    off VARCHAR,
    PRIMARY KEY (cursor),
    FOREIGN KEY (session) REFERENCES session (id) ON DELETE CASCADE
);
INSERT INTO "decision" VALUES(6,'done-1',6,1795270711671,'bot','call-1','test','test','','enforce','allow','require-test-before-deploy',NULL,NULL,NULL,NULL,'done','call',NULL);
INSERT INTO "decision" VALUES(13,'done-1',13,1795270711685,'bot','call-2','deploy','deploy','env="prod"','enforce','approved','approve-before-deploy','require human-approval before deploy','<rules>:3','maria',NULL,'done','call',NULL);
INSERT INTO "decision" VALUES(18,'done-1',18,1795270711694,'bot','call-3','rm','rm','','enforce','block','block-rm','block rm','<rules>:5',NULL,NULL,NULL,'call',NULL);
INSERT INTO "decision" VALUES(28,'asks-1',6,1795270711720,'bot','call-1','test','test','','enforce','allow','require-test-before-deploy',NULL,NULL,NULL,NULL,'done','call',NULL);
INSERT INTO "decision" VALUES(39,'cut-1',6,1795270711761,'bot','call-1','hang','hang','','enforce','allow',NULL,NULL,NULL,NULL,NULL,NULL,'call',NULL);
CREATE TABLE event (
    cursor INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    session VARCHAR NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    type VARCHAR NOT NULL,
    body TEXT NOT NULL,
    salt BLOB,
    content BLOB,
    hash BLOB DEFAULT (x'') NOT NULL,
    FOREIGN KEY (session) REFERENCES session (id),
    CONSTRAINT uq_event_session_seq UNIQUE (session, seq)
);
INSERT INTO "event" VALUES(1,'done-1',1,1795270711648,'session.opened','{"type":"session.opened","agent":"bot","model":"scripted","mode":"enforce","nets":[{"key":"require-test-before-deploy","name":"require-test-before-deploy","places":["idle","ready","gate"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"do-test","inputs":["ready"],"outputs":["gate"],"tools":["test"],"manual":false,"deferred":true,"transfers":[]},{"name":"again-test","inputs":["gate"],"outputs":["gate"],"tools":["test"],"manual":false,"deferred":false,"transfers":[]},{"name":"do-deploy","inputs":["gate"],"outputs":["ready"],"tools":["deploy"],"manual":false,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0,"gate":0},"free_tools":[],"rule":{"file":"<rules>","line":2,"text":"require test before deploy"}},{"key":"approve-before-deploy","name":"approve-before-deploy","places":["idle","ready"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"approve","inputs":["ready"],"outputs":["ready"],"tools":["deploy"],"manual":true,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0},"free_tools":[],"rule":{"file":"<rules>","line":3,"text":"require human-approval before deploy"}},{"key":"limit-deploy-2","name":"limit-deploy-2","places":["idle","ready","budget"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"do-deploy","inputs":["ready","budget"],"outputs":["ready"],"tools":["deploy"],"manual":false,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0,"budget":2},"free_tools":[],"rule":{"file":"<rules>","line":4,"text":"limit deploy to 2 per session"}},{"key":"block-rm","name":"block-rm","places":["idle","ready","locked"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"do-rm","inputs":["locked"],"outputs":["locked"],"tools":["rm"],"manual":false,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0,"locked":0},"free_tools":[],"rule":{"file":"<rules>","line":5,"text":"block rm"}}],"active":["require-test-before-deploy","approve-before-deploy","limit-deploy-2","block-rm"],"tools":["test","deploy","rm","hang"],"workdir":"/srv/shop","opened_by":"maria"}',X'3273B7B7327872636B3D9838AE490769',NULL,X'9A26BE7592E045C312C923443C54216183848076E1BB7A0E1213CB2302E36FED');
INSERT INTO "event" VALUES(2,'done-1',2,1795270711655,'session.status','{"type":"session.status","status":"running","error":null}',X'A52148CE14DE02C4DA22849558303438',NULL,X'346B235D235664DE894B027C935625A4CF1436031CAAB5C45AE52D3DD48F3764');
INSERT INTO "event" VALUES(3,'done-1',3,1795270711659,'message','{"type":"message","role":"user","text":"ship it","calls":[],"call_id":null,"tool":null,"is_error":false,"by":"maria"}',X'2F510F578A21328381594F61A3074D2A',NULL,X'F4AA8FCDB77F0756923611052EBCE2DFB43D75E68EB89103509B3D8E59FE4FBA');
INSERT INTO "event" VALUES(4,'done-1',4,1795270711664,'message','{"type":"message","role":"assistant","text":"","calls":[{"call_id":"call-1","tool":"test","input":{}}],"call_id":null,"tool":null,"is_error":false,"by":null}',X'80D560204C67881790B50FF213E5BABA',NULL,X'FE566051655E119DA1F13C3B571656A70379E9CFEA3EECBE4500F817059C2F42');
INSERT INTO "event" VALUES(5,'done-1',5,1795270711666,'step','{"type":"step","finish_reason":"tool-calls","input_tokens":10,"output_tokens":5}',X'893EB55DDAE791AB09E11540C2FB8F61',NULL,X'4CF1D0C653F9D4F07EADEDE30088C10F19316688C796CBD547FF5F224FE6EF9B');
INSERT INTO "event" VALUES(6,'done-1',6,1795270711671,'call.decided','{"type":"call.decided","call_id":"call-1","tool":"test","input":{},"names":["test"],"outcome":"allow","mode":"enforce","reason":null,"net":null,"rule":null,"steps":[{"net":"require-test-before-deploy","transition":"do-test","tool":"test","deferred":true}],"approved_by":[],"edited":false}',X'4C767E742163D94BDE20FAFC8F7EBDF9',NULL,X'E41EFF331876F533AA0A18C66DCCF169964A602A769E6C83C552EB9E1046AE17');
INSERT INTO "event" VALUES(7,'done-1',7,1795270711675,'call.result','{"type":"call.result","call_id":"call-1","tool":"test","output":"test ok","is_error":false,"seconds":0.000053669999942940194,"fired":[{"net":"require-test-before-deploy","transition":"do-test","tool":"test","deferred":true}],"dropped":[],"anomaly":null}',X'FCBA7F618C93FE58E3253D59752AB06D',NULL,X'E1B60BCF3E6966928486359A2B59844293DBBEF7470003FABE98989C2D218C0E');
INSERT INTO "event" VALUES(8,'done-1',8,1795270711676,'message','{"type":"message","role":"tool","text":null,"calls":[],"call_id":"call-1","tool":"test","is_error":false,"by":null}',X'521387268FC0B5267FE05396D856B5D8',NULL,X'5A3166ECC41F88FEC35EC86CA32FF472CDC6013A31E904FE255E905F23A69BBA');
INSERT INTO "event" VALUES(9,'done-1',9,1795270711677,'message','{"type":"message","role":"assistant","text":"","calls":[{"call_id":"call-2","tool":"deploy","input":{"env":"prod"}}],"call_id":null,"tool":null,"is_error":false,"by":null}',X'0F7B931A2D53D529A0CA05009FF84642',NULL,X'7EB20268E1F66A613F7BA7AE743663B43ADAF36D5EB6C481884977203FB47F4C');
INSERT INTO "event" VALUES(10,'done-1',10,1795270711678,'step','{"type":"step","finish_reason":"tool-calls","input_tokens":10,"output_tokens":5}',X'4414E63BBC5DDEA060BB7C7481D09F16',NULL,X'015561CC7BE5ABEFA824F61A58B3FBDF5E829C356ABF1B85535AF6C025C94E8D');
INSERT INTO "event" VALUES(11,'done-1',11,1795270711679,'approval.requested','{"type":"approval.requested","approval_id":"9b011093a34c","call_id":"call-2","tool":"deploy","called":"deploy","input":{"env":"prod"},"names":["deploy"],"net":"approve-before-deploy","transition":"approve","title":"Approve: deploy","message":"Allow ''deploy'' via transition ''approve'' in net ''approve-before-deploy''?","marking":{"idle":0,"ready":1},"rule":{"file":"<rules>","line":3,"text":"require human-approval before deploy"},"uninspectable":null}',X'1D3739135EB641A28711DC54E3B82AF8',NULL,X'5A5B0DFB3939F9CD5858AAE1DC9B3495C5CC7E753006F4E9C256DAEFB74D001E');
INSERT INTO "event" VALUES(12,'done-1',12,1795270711682,'approval.decided','{"type":"approval.decided","approval_id":"9b011093a34c","call_id":"call-2","approved":true,"by":"maria","reason":null,"input":null}',X'3AB1CCB51E1D3D95A3A1408BECD069DD',NULL,X'347505A5F0BD0005B994FB90BBE3BBD965D8993F709230EE6769E31E4B7CB585');
INSERT INTO "event" VALUES(13,'done-1',13,1795270711685,'call.decided','{"type":"call.decided","call_id":"call-2","tool":"deploy","input":{"env":"prod"},"names":["deploy"],"outcome":"allow","mode":"enforce","reason":null,"net":null,"rule":null,"steps":[{"net":"require-test-before-deploy","transition":"do-deploy","tool":"deploy","deferred":false},{"net":"approve-before-deploy","transition":"approve","tool":"deploy","deferred":false},{"net":"limit-deploy-2","transition":"do-deploy","tool":"deploy","deferred":false}],"approved_by":["maria"],"edited":false}',X'11DA6D36E3409D3BC230C4D553718B57',NULL,X'98FEABE5B55FEE39FDAC5E2AFDD3DFC8F480866CEC394CA876E25499D1DE5B61');
INSERT INTO "event" VALUES(14,'done-1',14,1795270711691,'call.result','{"type":"call.result","call_id":"call-2","tool":"deploy","output":"deploy prod","is_error":false,"seconds":0.00005837700018673786,"fired":[],"dropped":[],"anomaly":null}',X'7A6BBE81CF19FCFE668B60E47F621219',NULL,X'F9EE163BC3CD8319C279954B368A08DA22F88A7902EECF2C6DFE7D9EE96876BD');
INSERT INTO "event" VALUES(15,'done-1',15,1795270711691,'message','{"type":"message","role":"tool","text":null,"calls":[],"call_id":"call-2","tool":"deploy","is_error":false,"by":null}',X'5CCF3CEB4032B190C28C241149503775',NULL,X'65846098F4A7FC71D5032D94C2F4B734FDEA9479F71FEE8CC5DF04320221FFDC');
INSERT INTO "event" VALUES(16,'done-1',16,1795270711693,'message','{"type":"message","role":"assistant","text":"","calls":[{"call_id":"call-3","tool":"rm","input":{}}],"call_id":null,"tool":null,"is_error":false,"by":null}',X'AC31F78C87CC6933EB637057309B0538',NULL,X'D2FCCB87E8424FD0BE6501704C935E8B0C5461BCDA678BF2852C1F799947AADD');
INSERT INTO "event" VALUES(17,'done-1',17,1795270711694,'step','{"type":"step","finish_reason":"tool-calls","input_tokens":10,"output_tokens":5}',X'F32EF1DABD154A26EA6CC795E7BFD17F',NULL,X'C25FE0B03F6A4A9A652B0E402B2C4A0387DC74A0F0B5EA20F04929D2A3F15E06');
INSERT INTO "event" VALUES(18,'done-1',18,1795270711694,'call.decided','{"type":"call.decided","call_id":"call-3","tool":"rm","input":{},"names":["rm"],"outcome":"block","mode":"enforce","reason":"rm is blocked and cannot be called.","net":"block-rm","rule":{"file":"<rules>","line":5,"text":"block rm"},"steps":[],"approved_by":[],"edited":false}',X'323FA9DD7310E8D515B3AF5BF5B50113',NULL,X'30F7DA008E6DF0E2D208EB141B6EDC07B621A6A79B17F8442145D18FD8836898');
INSERT INTO "event" VALUES(19,'done-1',19,1795270711700,'message','{"type":"message","role":"tool","text":"rm is blocked and cannot be called.","calls":[],"call_id":"call-3","tool":"rm","is_error":true,"by":null}',X'D7B51944769551102F5C92B06341163A',NULL,X'422DA0F3B4D156A97E739EB1CB98C5B816475734BBFE501070BEFF3E796F5527');
INSERT INTO "event" VALUES(20,'done-1',20,1795270711703,'message','{"type":"message","role":"assistant","text":"done","calls":[],"call_id":null,"tool":null,"is_error":false,"by":null}',X'829DB15CBDCBC3B3D551F3FF3F1F7ABC',NULL,X'CF470761C77E1FD5646C24B6936DBE5953EF6F2BCBBB6D1FCC9D7DAE7DB2E8D7');
INSERT INTO "event" VALUES(21,'done-1',21,1795270711706,'step','{"type":"step","finish_reason":"stop","input_tokens":10,"output_tokens":5}',X'6884BE444616DEE4484FE37306FD97D9',NULL,X'E5F049A961FE44FF1CEE452C36C576044DE5229E6586FD86354480DAC796E4EB');
INSERT INTO "event" VALUES(22,'done-1',22,1795270711707,'session.status','{"type":"session.status","status":"idle","error":null}',X'02056E09FA1DC0DD9FBB628F8CB59E26',NULL,X'0BF054F3AC49192FA03C9A340E967686789E06D6B42170DD90AC8727CD34014B');
INSERT INTO "event" VALUES(23,'asks-1',1,1795270711709,'session.opened','{"type":"session.opened","agent":"bot","model":"scripted","mode":"enforce","nets":[{"key":"require-test-before-deploy","name":"require-test-before-deploy","places":["idle","ready","gate"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"do-test","inputs":["ready"],"outputs":["gate"],"tools":["test"],"manual":false,"deferred":true,"transfers":[]},{"name":"again-test","inputs":["gate"],"outputs":["gate"],"tools":["test"],"manual":false,"deferred":false,"transfers":[]},{"name":"do-deploy","inputs":["gate"],"outputs":["ready"],"tools":["deploy"],"manual":false,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0,"gate":0},"free_tools":[],"rule":{"file":"<rules>","line":2,"text":"require test before deploy"}},{"key":"approve-before-deploy","name":"approve-before-deploy","places":["idle","ready"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"approve","inputs":["ready"],"outputs":["ready"],"tools":["deploy"],"manual":true,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0},"free_tools":[],"rule":{"file":"<rules>","line":3,"text":"require human-approval before deploy"}},{"key":"limit-deploy-2","name":"limit-deploy-2","places":["idle","ready","budget"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"do-deploy","inputs":["ready","budget"],"outputs":["ready"],"tools":["deploy"],"manual":false,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0,"budget":2},"free_tools":[],"rule":{"file":"<rules>","line":4,"text":"limit deploy to 2 per session"}},{"key":"block-rm","name":"block-rm","places":["idle","ready","locked"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"do-rm","inputs":["locked"],"outputs":["locked"],"tools":["rm"],"manual":false,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0,"locked":0},"free_tools":[],"rule":{"file":"<rules>","line":5,"text":"block rm"}}],"active":["require-test-before-deploy","approve-before-deploy","limit-deploy-2","block-rm"],"tools":["test","deploy","rm","hang"],"workdir":"/srv/shop","opened_by":"maria"}',X'E542F775130F250A07BA3C91BC424058',NULL,X'45A0BF45F934E62EDF83F6D748284EF9E841BB8230F4CC29E06099869813277F');
INSERT INTO "event" VALUES(24,'asks-1',2,1795270711713,'session.status','{"type":"session.status","status":"running","error":null}',X'7B27A8B994A6A7C3EA540BF6E636527E',NULL,X'F7CA7E84F2EB39E2AD795E73C3FA16A3B5C05D701F22D0EA40F39F5E44D4E207');
INSERT INTO "event" VALUES(25,'asks-1',3,1795270711714,'message','{"type":"message","role":"user","text":"ship it","calls":[],"call_id":null,"tool":null,"is_error":false,"by":"maria"}',X'0A970A10929B71916E1EF9ED6C1959F2',NULL,X'7C85493AB34B7977E00366D5A04125BE86FE79C7AC6A4D72C7656B2146E13FE9');
INSERT INTO "event" VALUES(26,'asks-1',4,1795270711716,'message','{"type":"message","role":"assistant","text":"","calls":[{"call_id":"call-1","tool":"test","input":{}}],"call_id":null,"tool":null,"is_error":false,"by":null}',X'46A06C1755584A8FDF4B330AAFF0BA3F',NULL,X'5C1B84FF95CDD7CA112ABD254DCA02AF772D73B48886D88FE21051B2F061CB45');
INSERT INTO "event" VALUES(27,'asks-1',5,1795270711719,'step','{"type":"step","finish_reason":"tool-calls","input_tokens":10,"output_tokens":5}',X'630238C32C93E6078F8A4FFED3275A78',NULL,X'23E384FCFB61CC31C3C507629980C9E082830B8926DEDDEACF3C4F31EC803474');
INSERT INTO "event" VALUES(28,'asks-1',6,1795270711720,'call.decided','{"type":"call.decided","call_id":"call-1","tool":"test","input":{},"names":["test"],"outcome":"allow","mode":"enforce","reason":null,"net":null,"rule":null,"steps":[{"net":"require-test-before-deploy","transition":"do-test","tool":"test","deferred":true}],"approved_by":[],"edited":false}',X'719E56DF90FE740E5BE9C3F663EFB130',NULL,X'64EAB465467F4F49EE989DD1D2DB804B6FD5D92AFE5F39DA35DD00BB963E13E0');
INSERT INTO "event" VALUES(29,'asks-1',7,1795270711722,'call.result','{"type":"call.result","call_id":"call-1","tool":"test","output":"test ok","is_error":false,"seconds":0.00005485200017574243,"fired":[{"net":"require-test-before-deploy","transition":"do-test","tool":"test","deferred":true}],"dropped":[],"anomaly":null}',X'A4C6D29664B92F73FA7E43A5D9894234',NULL,X'265AC4D3B57D1EC93D6FAAD5E5D29181098243BAD8167A7C09EE9382EAC1C845');
INSERT INTO "event" VALUES(30,'asks-1',8,1795270711725,'message','{"type":"message","role":"tool","text":null,"calls":[],"call_id":"call-1","tool":"test","is_error":false,"by":null}',X'8143BD2323F9F4A723DDDF0FC2CA7735',NULL,X'C57CC41C0BE63219C71925A902F8D156CAA3BBF7294A1BC75BBC31E175747397');
INSERT INTO "event" VALUES(31,'asks-1',9,1795270711731,'message','{"type":"message","role":"assistant","text":"","calls":[{"call_id":"call-2","tool":"deploy","input":{}}],"call_id":null,"tool":null,"is_error":false,"by":null}',X'92AE43033D50F85FC4EA8D33CCA2422B',NULL,X'D9C49202508C8F636633B886E8D0442644DAB07853FB6B121570B1C4EF094D0F');
INSERT INTO "event" VALUES(32,'asks-1',10,1795270711734,'step','{"type":"step","finish_reason":"tool-calls","input_tokens":10,"output_tokens":5}',X'CE6BCE38EC18129E7A62C4A7283CCFB3',NULL,X'143F52865FC11676F5B39D1505469A6A9C0E9A0E93A7A41BB5C58AE5DCDB406B');
INSERT INTO "event" VALUES(33,'asks-1',11,1795270711739,'approval.requested','{"type":"approval.requested","approval_id":"2c230063f097","call_id":"call-2","tool":"deploy","called":"deploy","input":{},"names":["deploy"],"net":"approve-before-deploy","transition":"approve","title":"Approve: deploy","message":"Allow ''deploy'' via transition ''approve'' in net ''approve-before-deploy''?","marking":{"idle":0,"ready":1},"rule":{"file":"<rules>","line":3,"text":"require human-approval before deploy"},"uninspectable":null}',X'42F74DE3B301A01F5E583A58524FC389',NULL,X'F96FA30DB66912A8AB1FC3C87E2F3322CAC8E81AB993FD5585C614703A1A134C');
INSERT INTO "event" VALUES(34,'cut-1',1,1795270711742,'session.opened','{"type":"session.opened","agent":"bot","model":"scripted","mode":"enforce","nets":[{"key":"require-test-before-deploy","name":"require-test-before-deploy","places":["idle","ready","gate"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"do-test","inputs":["ready"],"outputs":["gate"],"tools":["test"],"manual":false,"deferred":true,"transfers":[]},{"name":"again-test","inputs":["gate"],"outputs":["gate"],"tools":["test"],"manual":false,"deferred":false,"transfers":[]},{"name":"do-deploy","inputs":["gate"],"outputs":["ready"],"tools":["deploy"],"manual":false,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0,"gate":0},"free_tools":[],"rule":{"file":"<rules>","line":2,"text":"require test before deploy"}},{"key":"approve-before-deploy","name":"approve-before-deploy","places":["idle","ready"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"approve","inputs":["ready"],"outputs":["ready"],"tools":["deploy"],"manual":true,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0},"free_tools":[],"rule":{"file":"<rules>","line":3,"text":"require human-approval before deploy"}},{"key":"limit-deploy-2","name":"limit-deploy-2","places":["idle","ready","budget"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"do-deploy","inputs":["ready","budget"],"outputs":["ready"],"tools":["deploy"],"manual":false,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0,"budget":2},"free_tools":[],"rule":{"file":"<rules>","line":4,"text":"limit deploy to 2 per session"}},{"key":"block-rm","name":"block-rm","places":["idle","ready","locked"],"transitions":[{"name":"start","inputs":["idle"],"outputs":["ready"],"tools":[],"manual":false,"deferred":false,"transfers":[]},{"name":"do-rm","inputs":["locked"],"outputs":["locked"],"tools":["rm"],"manual":false,"deferred":false,"transfers":[]}],"initial_marking":{"idle":1,"ready":0,"locked":0},"free_tools":[],"rule":{"file":"<rules>","line":5,"text":"block rm"}}],"active":["require-test-before-deploy","approve-before-deploy","limit-deploy-2","block-rm"],"tools":["test","deploy","rm","hang"],"workdir":"/srv/shop","opened_by":"maria"}',X'5993D2E27C225130B1A42B0BC7749FF7',NULL,X'D695C013687E116C45983F42606698F7EC1A5F92B4F36A9B9C39006DC79C209A');
INSERT INTO "event" VALUES(35,'cut-1',2,1795270711745,'session.status','{"type":"session.status","status":"running","error":null}',X'FB2D8F2CD598C94B86B007A887142F6C',NULL,X'AC967F994D37B533968D258E6EC6A8936570FA260A7B63EB8235E40892B89695');
INSERT INTO "event" VALUES(36,'cut-1',3,1795270711750,'message','{"type":"message","role":"user","text":"hang","calls":[],"call_id":null,"tool":null,"is_error":false,"by":"maria"}',X'82F202E35F2D7CFD30E1998507ADB56D',NULL,X'B601BC76DFD36C6C1EBFDABD3E94415B5B74CB25A15CB9E511583E11020D8257');
INSERT INTO "event" VALUES(37,'cut-1',4,1795270711753,'message','{"type":"message","role":"assistant","text":"","calls":[{"call_id":"call-1","tool":"hang","input":{}}],"call_id":null,"tool":null,"is_error":false,"by":null}',X'B88A4562354DC14F8DD8B4A6467743AB',NULL,X'9A07D2F62DE93C46F06CC35BFE861BE8F6BCA00E64D53383D6FE56D8A99032E3');
INSERT INTO "event" VALUES(38,'cut-1',5,1795270711758,'step','{"type":"step","finish_reason":"tool-calls","input_tokens":10,"output_tokens":5}',X'40BB972D1EC3EBA3A02080B1B89A205E',NULL,X'A424EBFD2510018DEF71CFF6C598EFDA2E5E67471ADD23D6ED8443CDEAD25360');
INSERT INTO "event" VALUES(39,'cut-1',6,1795270711761,'call.decided','{"type":"call.decided","call_id":"call-1","tool":"hang","input":{},"names":["hang"],"outcome":"allow","mode":"enforce","reason":null,"net":null,"rule":null,"steps":[],"approved_by":[],"edited":false}',X'2CDAFEE5E5FFB1A2B26722B78A99813E',NULL,X'5786FFDBADAFC72828951D2FE448F08D259FF91A37B1D3FA0B7787293E24D28E');
CREATE TABLE pruned (
    session VARCHAR NOT NULL,
    agent VARCHAR NOT NULL,
    opened INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    events INTEGER NOT NULL,
    head BLOB NOT NULL,
    at INTEGER NOT NULL,
    "by" VARCHAR NOT NULL,
    "key" BLOB NOT NULL,
    signature BLOB NOT NULL,
    PRIMARY KEY (session)
);
CREATE TABLE session (
    id VARCHAR NOT NULL,
    agent VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    mode VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    opened INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    events INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    blocked INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    error VARCHAR,
    kind VARCHAR DEFAULT 'root' NOT NULL,
    parent VARCHAR,
    parent_seq INTEGER,
    source VARCHAR,
    imported BOOLEAN DEFAULT '0' NOT NULL,
    PRIMARY KEY (id)
);
INSERT INTO "session" VALUES('done-1','bot','scripted','enforce','idle',1795270711648,1795270711707,22,3,1,0,NULL,'root',NULL,NULL,NULL,0);
INSERT INTO "session" VALUES('asks-1','bot','scripted','enforce','running',1795270711709,1795270711739,11,1,0,1,NULL,'root',NULL,NULL,NULL,0);
INSERT INTO "session" VALUES('cut-1','bot','scripted','enforce','running',1795270711742,1795270711761,6,1,0,0,NULL,'root',NULL,NULL,NULL,0);
CREATE INDEX ix_session_updated ON session (updated);
CREATE INDEX ix_decision_at ON decision (at);
CREATE INDEX ix_decision_session ON decision (session, at);
CREATE INDEX ix_decision_tool ON decision (tool, at, verdict);
CREATE INDEX ix_decision_net ON decision (net, at, verdict);
CREATE INDEX ix_decision_verdict ON decision (verdict, at) WHERE verdict <> 'allow';
CREATE INDEX ix_decision_called ON decision (called, at) WHERE called <> tool;
CREATE INDEX ix_decision_via ON decision (via, at) WHERE via IS NOT NULL;
CREATE INDEX ix_decision_shadow ON decision (session, verdict, net, result, at) WHERE mode = 'shadow';
CREATE INDEX ix_event_approval ON event (cursor, at) WHERE type IN (
    'approval.requested', 'approval.given', 'approval.decided', 'approval.expired', 'approval.withdrawn'
);
CREATE INDEX ix_decision_kind ON decision (kind, at) WHERE kind <> 'call';
CREATE INDEX ix_decision_by ON decision ("by", at) WHERE "by" IS NOT NULL;
CREATE INDEX ix_decision_off ON decision (off, at) WHERE "off" IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('event',39);
COMMIT;
